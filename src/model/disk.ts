// The disk, as sinks may know it. The real one stands in ops/; tests bring one that forgets what was not synced.

export interface DiskFile {
  size(): Promise<number>
  /** A text that is the same for one file under whatever name, and another for any other file, as far as the file system can tell. */
  identity(): Promise<string>
  /** False once it was removed, or replaced, under every name: what stands in it goes when it is closed. */
  isNamed(): Promise<boolean>
  /** Up to `length` bytes from `offset`; fewer only at the end of the file. */
  read(offset: number, length: number): Promise<Uint8Array>
  /** All of `bytes`, at `offset`. */
  write(bytes: Uint8Array, offset: number): Promise<void>
  truncate(size: number): Promise<void>
  /** Resolves when the file's content would survive a power cut. */
  sync(): Promise<void>
  close(): Promise<void>
}

/** What stands under a name. */
export interface FileState {
  /** as `DiskFile.identity` tells it */
  readonly identity: string
  readonly size: number
  /** epoch ms by the file system's clock: when it was last written, renamed or made */
  readonly changedAt: number
}

/** What stands in a folder; a link is `other`, whatever it leads to. */
export interface Listed {
  readonly name: string
  readonly kind: 'file' | 'folder' | 'other'
}

/**
 * Throws ConnectorError `disk_full`, `misconfigured` (no such folder, no permission, read-only) or `unreachable` (an I/O error, a
 * mount that is away). After one of these the file is to be closed and opened anew; what a failed sync covered counts as not
 * written, and is written anew before it is synced again.
 */
export interface Disk {
  /**
   * Opens for reading and writing, creates the file (mode 0600) where there is none; its folder must exist or is created. A file
   * or link of another user, root excepted, is `misconfigured`.
   */
  open(path: string): Promise<DiskFile>
  /** As `open`, but a file that is new: throws `misconfigured` where the name is taken, be it by a link. */
  openNew(path: string): Promise<DiskFile>
  /** For reading and syncing alone, what is there. */
  openToRead(path: string): Promise<DiskFile>
  exists(path: string): Promise<boolean>
  /** Undefined where there is none. */
  look(path: string): Promise<FileState | undefined>
  /** Empty where there is no such folder. */
  list(folder: string): Promise<readonly Listed[]>
  /** Replaces `to`; both names in the same folder. */
  rename(from: string, to: string): Promise<void>
  /** No error where there is none. */
  remove(path: string): Promise<void>
  /** Makes creations, renames and removals in `folder` survive a power cut. */
  syncFolder(folder: string): Promise<void>
}

// A disk in memory that keeps only what was synced: cut at any byte by a kill, robbed of any unsynced write by a power cut.
import { dirname } from 'node:path'
import type { Random } from '../../src/core/clock.ts'
import type { Disk, DiskFile, FileState, Listed } from '../../src/contracts/platform.ts'
import { ConnectorError, type ErrorCode } from '../../src/core/errors.ts'

/** kill: the process is gone, its writes stay. power: of unsynced writes any part may be gone. */
export type CrashKind = 'kill' | 'power'

/** Thrown by every call on a disk that went down, until `restart`. No error of ours: it must pass all layers unread. */
export class DiskCrash extends Error {
  override readonly name = 'DiskCrash'
}

type DataStep = { readonly offset: number; readonly bytes: Uint8Array } | { readonly size: number }

/** A growing file content. */
class Content {
  #bytes = Buffer.alloc(1024)
  size = 0

  view(): Buffer {
    return this.#bytes.subarray(0, this.size)
  }

  apply(step: DataStep): void {
    if ('size' in step) {
      this.#grow(step.size)
      if (step.size < this.size) this.#bytes.fill(0, step.size, this.size)
      this.size = step.size
    } else {
      const end = step.offset + step.bytes.length
      this.#grow(end)
      this.#bytes.set(step.bytes, step.offset)
      this.size = Math.max(this.size, end)
    }
  }

  become(other: Content): void {
    this.apply({ size: 0 })
    this.apply({ offset: 0, bytes: Buffer.from(other.view()) })
  }

  #grow(size: number): void {
    if (size <= this.#bytes.length) return
    const grown = Buffer.alloc(Math.max(size, this.#bytes.length * 2))
    this.#bytes.copy(grown, 0, 0, this.size)
    this.#bytes = grown
  }
}

interface Inode {
  readonly id: number
  /** what a read sees */
  readonly live: Content
  /** what survives a power cut for sure */
  readonly synced: Content
  pending: DataStep[]
  readOnly: boolean
  /** epoch ms */
  changedAt: number
}

interface NameStep {
  readonly folder: string
  apply(names: Map<string, Inode>): void
}

export type DiskCall =
  'open' | 'openToRead' | 'read' | 'write' | 'truncate' | 'sync' | 'look' | 'rename' | 'remove' | 'syncFolder'

export interface FakeDiskOptions {
  readonly random?: Random
  /** all files together; a write beyond it is cut short and throws `disk_full` */
  capacityBytes?: number
}

export class FakeDisk implements Disk {
  readonly #options: FakeDiskOptions
  readonly #random: Random
  #names = new Map<string, Inode>()
  #durableNames = new Map<string, Inode>()
  #pendingNames: NameStep[] = []
  #failures: { call: DiskCall; code: ErrorCode }[] = []
  #nextId = 1
  #life = 0
  #down = false
  #crash: { afterCalls: number; kind: CrashKind } | undefined
  /** changing calls so far: where `crashAfter` may strike */
  calls = 0
  openFiles = 0

  constructor(options: FakeDiskOptions = {}) {
    this.#options = options
    this.#random = options.random ?? (() => 0.5)
  }

  set capacityBytes(bytes: number) {
    this.#options.capacityBytes = bytes
  }

  /** The next call of this name throws. A failed sync forgets what it should have kept, as the kernel does. */
  fail(call: DiskCall, code: ErrorCode): void {
    this.#failures.push({ call, code })
  }

  /** The disk goes down in the middle of the changing call number `calls` from now. */
  crashAfter(calls: number, kind: CrashKind): void {
    this.#crash = { afterCalls: calls, kind }
  }

  /** Goes down now. */
  crash(kind: CrashKind): void {
    this.#down = true
    this.#crash = undefined
    this.#life++
    this.openFiles = 0
    if (kind === 'kill') return
    const survived = Math.floor(this.#random() * (this.#pendingNames.length + 1))
    for (const step of this.#pendingNames.slice(0, survived)) step.apply(this.#durableNames)
    this.#pendingNames = []
    this.#names = new Map(this.#durableNames)
    for (const inode of new Set(this.#names.values())) this.#losePending(inode)
  }

  /** The next process finds what is left. */
  restart(): void {
    this.#down = false
    this.#crash = undefined
  }

  get isDown(): boolean {
    return this.#down
  }

  /** What a reader of the file sees; undefined if there is none. */
  content(path: string): Buffer | undefined {
    const inode = this.#names.get(path)
    return inode && Buffer.from(inode.live.view())
  }

  paths(): readonly string[] {
    return [...this.#names.keys()].sort()
  }

  /** As if another program had written the file, and long ago. */
  put(path: string, text: string, changedAt = 0): void {
    const inode = this.#made()
    inode.changedAt = changedAt
    inode.live.apply({ offset: 0, bytes: Buffer.from(text) })
    inode.synced.become(inode.live)
    this.#names.set(path, inode)
    this.#durableNames.set(path, inode)
  }

  async open(path: string): Promise<DiskFile> {
    this.#enter('open')
    let inode = this.#names.get(path)
    if (!inode) {
      const made = this.#made()
      inode = made
      this.#rename(dirname(path), (names) => names.set(path, made))
    }
    if (inode.readOnly)
      throw new ConnectorError('misconfigured', `cannot open ${path}`, {
        cause: Object.assign(new Error('as told'), { code: 'EACCES' }),
      })
    this.openFiles++
    return this.#handle(inode)
  }

  async openNew(path: string): Promise<DiskFile> {
    if (this.#names.has(path)) throw new ConnectorError('misconfigured', `the name is taken: ${path}`)
    return this.open(path)
  }

  async openToRead(path: string): Promise<DiskFile> {
    this.#enter('openToRead')
    const inode = this.#names.get(path)
    if (!inode) throw new ConnectorError('misconfigured', `no such file: ${path}`)
    this.openFiles++
    return this.#handle(inode, true)
  }

  /** From now on it is read-only, or writable again. */
  protect(path: string, readOnly = true): void {
    const inode = this.#names.get(path)
    if (inode) inode.readOnly = readOnly
  }

  async exists(path: string): Promise<boolean> {
    this.#alive()
    return this.#names.has(path)
  }

  async look(path: string): Promise<FileState | undefined> {
    this.#enter('look')
    const inode = this.#names.get(path)
    return inode && { identity: String(inode.id), size: inode.live.size, changedAt: inode.changedAt }
  }

  async list(folder: string): Promise<readonly Listed[]> {
    this.#alive()
    const inside = [...this.#names.keys()].filter((path) => path.startsWith(`${folder}/`))
    const kinds = inside.map((path) => {
      const [name = '', ...rest] = path.slice(folder.length + 1).split('/')
      return [name, rest.length === 0 ? 'file' : 'folder'] as const
    })
    return [...new Map(kinds)].map(([name, kind]) => ({ name, kind }))
  }

  async rename(from: string, to: string): Promise<void> {
    this.#enter('rename')
    if (!this.#names.has(from)) throw new ConnectorError('misconfigured', `no such file: ${from}`)
    this.#rename(dirname(to), (names) => {
      const inode = names.get(from)
      names.delete(from)
      if (inode) names.set(to, inode)
    })
  }

  async remove(path: string): Promise<void> {
    this.#enter('remove')
    this.#rename(dirname(path), (names) => names.delete(path))
  }

  async syncFolder(folder: string): Promise<void> {
    this.#enter('syncFolder')
    for (const step of this.#pendingNames) if (step.folder === folder) step.apply(this.#durableNames)
    this.#pendingNames = this.#pendingNames.filter((step) => step.folder !== folder)
  }

  #rename(folder: string, apply: (names: Map<string, Inode>) => unknown): void {
    const step = { folder, apply: (names: Map<string, Inode>) => void apply(names) }
    step.apply(this.#names)
    this.#pendingNames.push(step)
  }

  #made(): Inode {
    const [live, synced] = [new Content(), new Content()]
    return { id: this.#nextId++, live, synced, pending: [], readOnly: false, changedAt: 0 }
  }

  #alive(): void {
    if (this.#down) throw new DiskCrash('the disk is down')
  }

  #failureOf(call: DiskCall): ErrorCode | undefined {
    const at = this.#failures.findIndex((failure) => failure.call === call)
    return at < 0 ? undefined : this.#failures.splice(at, 1)[0]?.code
  }

  /** Throws if a failure or a crash is due. */
  #enter(call: DiskCall): void {
    this.#alive()
    const failure = call === 'sync' ? undefined : this.#failureOf(call)
    if (failure) throw new ConnectorError(failure, `${call} failed, as told`)
    if (call === 'openToRead' || call === 'read' || call === 'look') return
    this.calls++
    if (this.#crash && call !== 'write' && this.#crash.afterCalls-- <= 0) this.#fall()
  }

  #fall(): never {
    this.crash(this.#crash?.kind ?? 'kill')
    throw new DiskCrash('the disk went down')
  }

  #losePending(inode: Inode): void {
    for (const step of inode.pending) {
      if (this.#random() < 0.5) continue
      if ('size' in step) {
        inode.synced.apply(step)
        continue
      }
      const cut = Math.floor(this.#random() * (step.bytes.length + 1))
      // A file that grew before its data came down reads as zeros there.
      const torn = this.#random() < 0.3 ? Buffer.alloc(cut) : step.bytes.subarray(0, cut)
      inode.synced.apply({ offset: step.offset, bytes: torn })
    }
    inode.pending = []
    inode.live.become(inode.synced)
  }

  #usedBytes(): number {
    let bytes = 0
    for (const { live } of new Set(this.#names.values())) bytes += live.size
    return bytes
  }

  #change(inode: Inode, step: DataStep): void {
    inode.live.apply(step)
    inode.pending.push(step)
  }

  #write(inode: Inode, bytes: Uint8Array, offset: number): void {
    const own = Buffer.from(bytes)
    if (this.#crash && this.#crash.afterCalls-- <= 0) {
      this.#change(inode, { offset, bytes: own.subarray(0, Math.floor(this.#random() * (own.length + 1))) })
      this.#fall()
    }
    const memory = (this.#options.capacityBytes ?? Infinity) - this.#usedBytes() + (inode.live.size - offset)
    if (own.length > memory) {
      this.#change(inode, { offset, bytes: own.subarray(0, Math.max(0, memory)) })
      throw new ConnectorError('disk_full', 'no room left')
    }
    this.#change(inode, { offset, bytes: own })
  }

  #sync(inode: Inode): void {
    const failure = this.#failureOf('sync')
    if (!failure) for (const step of inode.pending) inode.synced.apply(step)
    inode.pending = []
    if (failure) throw new ConnectorError(failure, 'sync failed, as told')
  }

  #handle(inode: Inode, readOnly = false): DiskFile {
    const life = this.#life
    let open = true
    const entered = (call: DiskCall) => {
      if (life !== this.#life) throw new DiskCrash('this file belongs to a process that is gone')
      if (!open) throw new Error('a closed file was used')
      if (readOnly && ['write', 'truncate'].includes(call))
        throw new Error('written where it may be read alone')
      this.#enter(call)
    }
    return {
      size: async () => (entered('read'), inode.live.size),
      identity: async () => (entered('read'), String(inode.id)),
      isNamed: async () => (entered('look'), [...this.#names.values()].includes(inode)),
      read: async (offset, length) => {
        entered('read')
        return Buffer.from(inode.live.view().subarray(offset, offset + length))
      },
      write: async (bytes, offset) => {
        entered('write')
        this.#write(inode, bytes, offset)
      },
      truncate: async (size) => {
        entered('truncate')
        this.#change(inode, { size })
      },
      sync: async () => {
        entered('sync')
        this.#sync(inode)
      },
      close: async () => {
        if (life !== this.#life) return
        if (!open) throw new Error('a file was closed twice')
        open = false
        this.openFiles--
      },
    }
  }
}

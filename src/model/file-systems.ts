// Which file systems are none to write to: by their `statfs` types, which are Linux's; elsewhere the numbers mean something else.

/** WAL and POSIX locks do not hold there. */
const network: Readonly<Record<number, string>> = {
  0x6969: 'NFS',
  0x517b: 'SMB',
  0xff534d42: 'CIFS',
  0xfe534d42: 'SMB',
  0x5346414f: 'AFS',
  0x564c: 'NCP',
}

/** Their folders say that they may be written, to root, and take no file. */
const kernel: ReadonlySet<number> = new Set([
  0x9fa0, // proc
  0x62656572, // sysfs
  0x27e0eb, // cgroup
  0x63677270, // its second version
  0x1cd1, // devpts
])

/** The name of a network file system; undefined: the type is none. */
export const networkFileSystem = (type: number): string | undefined => network[type >>> 0]

export const isOfKernel = (type: number): boolean => kernel.has(type >>> 0)

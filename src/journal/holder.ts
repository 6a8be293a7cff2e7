// Which process has a journal open, as far as Linux tells: by the locks that SQLite holds on its file.
import { readFileSync, statSync } from 'node:fs'

/** SQLite locks bytes from here on, and nothing else there (`PENDING_BYTE`). */
const LOCKED_FROM = 2 ** 30
/** `1: POSIX  ADVISORY  WRITE 2461 00:1b:91785 1073741824 1073742335` */
const line = /^\d+: POSIX +ADVISORY +(?:READ|WRITE) +(\d+) [\da-f]+:[\da-f]+:(\d+) (\d+) /gm

/** Undefined where it cannot be told: another system, or a process outside of this container. */
export function holderOf(
  path: string,
  readLocks = () => readFileSync('/proc/locks', 'utf8'),
): number | undefined {
  try {
    const { ino } = statSync(path, { bigint: true })
    const pids = [...readLocks().matchAll(line)]
      .filter(([, , inode, from]) => inode === String(ino) && Number(from) >= LOCKED_FROM)
      .map(([, pid]) => Number(pid))
    const others = [...new Set(pids)].filter((pid) => pid > 0 && pid !== process.pid)
    // The number alone may be another file system's file too.
    return others.length === 1 ? others[0] : undefined
  } catch {
    return undefined
  }
}

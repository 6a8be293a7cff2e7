// Where a name comes to lie once every link is followed; also for one that is yet to be made.
import { basename, dirname, join, resolve } from 'node:path'

/** As node:fs has them: both throw where there is nothing, or no link. */
export interface LinkCalls {
  readlink(path: string): string
  realpath(path: string): string
}

/** More links than this in a row are a circle. */
const MOST_LINKS = 40

export function resolvedPath(path: string, calls: LinkCalls, links = MOST_LINKS): string {
  const whole = resolve(path)
  const folder = dirname(whole)
  if (folder === whole) return whole
  const target = linkTarget(whole, calls)
  const place = realFolder(folder, calls)
  if (target !== undefined && links > 0) return resolvedPath(resolve(place, target), calls, links - 1)
  return join(place, basename(whole))
}

/** What a link says, as it stands in it; undefined where none is. */
export function linkTarget(path: string, { readlink }: Pick<LinkCalls, 'readlink'>): string | undefined {
  try {
    return readlink(path)
  } catch {
    return undefined
  }
}

function realFolder(folder: string, calls: LinkCalls): string {
  try {
    return calls.realpath(folder)
  } catch {
    return folder === dirname(folder) ? folder : join(realFolder(dirname(folder), calls), basename(folder))
  }
}

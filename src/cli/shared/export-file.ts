// Where content goes: standard output, or a new file that only its owner can read. Nothing is overwritten or left half done.
import { open, unlink } from 'node:fs/promises'
import { ConnectorError, errnoOf, isNoRoom, isReaderGone } from '../../core/errors.ts'
import type { CommandContext } from './world.ts'

function cannot(path: string, error: unknown): ConnectorError {
  const code = errnoOf(error, 'unknown error')
  const why: Readonly<Record<string, string>> = {
    EEXIST: 'it exists already and is not overwritten: name another file',
    ENOENT: 'its folder does not exist: create it first',
    EACCES: 'this user has no permission to write there',
    ENOSPC: 'the disk is full',
    EPIPE: 'its reader is gone',
  }
  const what = why[code] ?? (isNoRoom(code) ? `no room left (${code})` : code)
  return new ConnectorError('misconfigured', `Cannot write ${path}: ${what}`, { cause: error })
}

const toStandardOutput = (error: unknown) => cannot('to standard output', error)

/** What somebody asked to see. False: the reader went away, and wants no more. */
export async function showContent({ print }: CommandContext, bytes: Uint8Array): Promise<boolean> {
  try {
    await print(bytes)
    return true
  } catch (error) {
    if (isReaderGone(errnoOf(error))) return false
    throw toStandardOutput(error)
  }
}

/** Writes each piece in order. A file appears whole or not at all; where there are no pieces, none does. */
export async function writeExport(
  context: CommandContext,
  path: string,
  pieces: AsyncIterable<Uint8Array>,
): Promise<void> {
  if (path === '-') {
    for await (const piece of pieces)
      await context.print(piece).catch((error: unknown) => {
        throw toStandardOutput(error)
      })
    return
  }
  const rest = pieces[Symbol.asyncIterator]()
  let piece = await rest.next()
  if (piece.done === true) return
  const file = await open(path, 'wx', 0o600).catch((error: unknown) => {
    throw cannot(path, error)
  })
  try {
    for (; piece.done !== true; piece = await rest.next())
      await file.appendFile(piece.value).catch((error: unknown) => {
        throw cannot(path, error)
      })
    await file.sync().catch((error: unknown) => {
      throw cannot(path, error)
    })
    await file.close()
  } catch (error) {
    await file.close().catch(() => undefined)
    await unlink(path)
    throw error
  }
}

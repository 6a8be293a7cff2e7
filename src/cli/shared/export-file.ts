// Writes content to standard output or a new file for its owner only. Never overwrites a file.
import { open, unlink } from 'node:fs/promises'
import { ConnectorError, errnoOf, isDiskFull, isReaderGone } from '../../core/errors.ts'
import type { CommandContext } from './context.ts'

function cannot(path: string, error: unknown): ConnectorError {
  const code = errnoOf(error, 'unknown error')
  const why: Readonly<Record<string, string>> = {
    EEXIST: 'it exists already and is not overwritten: name another file',
    ENOENT: 'its folder does not exist: create it first',
    EACCES: 'this user has no permission to write there',
    ENOSPC: 'the disk is full',
    EPIPE: 'its reader is gone',
  }
  const what = why[code] ?? (isDiskFull(code) ? `no room left (${code})` : code)
  return new ConnectorError('misconfigured', `Cannot write ${path}: ${what}`, { cause: error })
}

const cannotWrite =
  (path: string) =>
  (error: unknown): never => {
    throw cannot(path, error)
  }

/** Prints content that the user requested. False: the reader of the output is gone. */
export async function showContent({ print }: CommandContext, bytes: Uint8Array): Promise<boolean> {
  try {
    await print(bytes)
    return true
  } catch (error) {
    if (isReaderGone(errnoOf(error))) return false
    throw cannot('to standard output', error)
  }
}

/** The file appears complete or not at all; without pieces it is not created. */
export async function writeExport(
  context: CommandContext,
  path: string,
  pieces: AsyncIterable<Uint8Array>,
): Promise<void> {
  if (path === '-') {
    for await (const piece of pieces) await context.print(piece).catch(cannotWrite('to standard output'))
    return
  }
  const rest = pieces[Symbol.asyncIterator]()
  let piece = await rest.next()
  if (piece.done === true) return
  const file = await open(path, 'wx', 0o600).catch(cannotWrite(path))
  try {
    for (; piece.done !== true; piece = await rest.next())
      await file.appendFile(piece.value).catch(cannotWrite(path))
    await file.sync().catch(cannotWrite(path))
    await file.close()
  } catch (error) {
    await file.close().catch(() => undefined)
    await unlink(path)
    throw error
  }
}

// A folder copied from a bucket, for a check without network access.
// A link counts as the file that it points to; a link to a folder is reported and not followed.
import { createReadStream } from 'node:fs'
import { open, opendir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ConnectorError, errnoOf } from '../../../core/errors.ts'
import type { EvidenceStore } from './objects.ts'

function cannotRead(path: string, error: unknown): ConnectorError {
  return new ConnectorError(
    'misconfigured',
    `Cannot read ${path} (${errnoOf(error, 'unknown error')}): expected the folder that was copied from the sink's bucket and prefix`,
    { cause: error },
  )
}

type Strange = Parameters<EvidenceStore['list']>[0]

/** Anything that cannot be read as a file could hide an added file. */
async function strangeness(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined)
  if (!found) return 'is a link that leads nowhere'
  if (found.isFile()) return undefined
  return found.isDirectory()
    ? 'is a link to a folder: its content is not checked, so copy the folder itself'
    : 'is neither a file nor a folder'
}

async function* filesUnder(folder: string, key: string, strange: Strange): AsyncGenerator<string> {
  const path = join(folder, key)
  const inside = await opendir(path).catch((error: unknown) => {
    if (key === '') throw cannotRead(path, error)
    strange(key, `is a folder that cannot be read (${errnoOf(error)}): its content is not checked`)
  })
  for await (const each of inside ?? []) {
    const inner = key === '' ? each.name : `${key}/${each.name}`
    if (each.isDirectory()) yield* filesUnder(folder, inner, strange)
    else if (each.isFile()) yield inner
    else {
      const what = await strangeness(join(folder, inner))
      if (what === undefined) yield inner
      else strange(inner, what)
    }
  }
}

async function* read(path: string): AsyncGenerator<Uint8Array> {
  try {
    for await (const part of createReadStream(path)) yield part as Uint8Array
  } catch (error) {
    throw cannotRead(path, error)
  }
}

/** `folder` is a copy of the sink's prefix: it contains `manifest` and `workspace=…`. */
export function folderEvidence(folder: string): EvidenceStore {
  return {
    list: (strange) => filesUnder(folder, '', strange),
    get: async (key) => {
      const path = join(folder, key)
      try {
        // Checked before opening: reading a pipe would block forever.
        if (!(await stat(path)).isFile()) return undefined
        const file = await open(path)
        await file.close()
      } catch (error) {
        if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined
        throw cannotRead(path, error)
      }
      return read(path)
    },
  }
}

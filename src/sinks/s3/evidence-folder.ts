// A folder that was copied from a bucket, for a check without any network. A link counts as a file, by what it leads to: linked folders are not entered.
import { createReadStream } from 'node:fs'
import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { ConnectorError, errnoOf } from '../../model/errors.ts'
import type { EvidenceStore } from './evidence-objects.ts'

function cannotRead(path: string, error: unknown): ConnectorError {
  return new ConnectorError(
    'misconfigured',
    `Cannot read ${path} (${errnoOf(error, 'unknown error')}): want the folder that was copied from the sink's bucket and prefix`,
    { cause: error },
  )
}

async function* filesUnder(folder: string, key: string): AsyncGenerator<string> {
  const path = join(folder, key)
  const inside = await readdir(path, { withFileTypes: true }).catch((error: unknown) => {
    throw cannotRead(path, error)
  })
  for (const each of inside) {
    const inner = key === '' ? each.name : `${key}/${each.name}`
    if (each.isDirectory()) yield* filesUnder(folder, inner)
    else if (each.isFile() || each.isSymbolicLink()) yield inner
  }
}

async function* read(path: string): AsyncGenerator<Uint8Array> {
  try {
    for await (const part of createReadStream(path)) yield part as Uint8Array
  } catch (error) {
    throw cannotRead(path, error)
  }
}

/** `folder` is what the sink's prefix is in the bucket: `manifest` and `workspace=…` stand in it. */
export function folderEvidence(folder: string): EvidenceStore {
  return {
    list: () => filesUnder(folder, ''),
    get: async (key) => {
      const path = join(folder, key)
      try {
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

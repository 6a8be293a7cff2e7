// Who asks as one: a key on a host, by a hash that is cut short. It stands in the journal, and names no key.
import { createHash } from 'node:crypto'
import type { WorkspaceConfig } from './workspace.ts'

type Keyed = Pick<WorkspaceConfig, 'base_url' | 'api_key'>

/** As the key is now: it may be rotated. */
export function keyIdOf({ base_url: url, api_key: key }: Keyed): string {
  const text = `${new URL(url).host}\n${key.reveal()}`
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** Those of `all` that ask as one with this workspace, itself among them. */
export function askingAsOne<T extends Keyed>(workspace: Keyed, all: readonly T[]): readonly T[] {
  const key = keyIdOf(workspace)
  return all.filter((other) => keyIdOf(other) === key)
}

// Who asks as one: a key on a host, by a hash that is cut short. It stands in the journal, and names no key.
import { createHash } from 'node:crypto'
import type { WorkspaceConfig } from './workspace.ts'

/** As the key is now: it may be rotated. */
export function keyIdOf({
  base_url: url,
  api_key: key,
}: Pick<WorkspaceConfig, 'base_url' | 'api_key'>): string {
  const text = `${new URL(url).host}\n${key.reveal()}`
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

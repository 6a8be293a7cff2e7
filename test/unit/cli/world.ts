// A world that remembers what was said in it.
import type { CommandContext } from '../../../src/cli/shared/world.ts'

export function openWorld() {
  const said = { stdout: '', stderr: '' }
  const stop = new AbortController()
  const context: CommandContext = {
    ...{ env: {}, version: '0.0.0', signal: stop.signal },
    stdout: (text) => void (said.stdout += text),
    stderr: (text) => void (said.stderr += text),
    print: async (bytes) => void (said.stdout += Buffer.from(bytes).toString('latin1')),
  }
  /** What was said since it was asked last. */
  const heard = () => {
    const all = { ...said }
    said.stdout = said.stderr = ''
    return all
  }
  return { context, stop, heard }
}

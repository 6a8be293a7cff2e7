// A command context that records its output.
import type { CommandContext } from '../../../src/cli/shared/context.ts'

export function openContext() {
  const said = { stdout: '', stderr: '' }
  const stop = new AbortController()
  const context: CommandContext = {
    ...{ env: {}, version: '0.0.0', signal: stop.signal },
    stdout: (text) => void (said.stdout += text),
    stderr: (text) => void (said.stderr += text),
    print: async (bytes) => void (said.stdout += Buffer.from(bytes).toString('latin1')),
  }
  /** The output since the last call. */
  const heard = () => {
    const all = { ...said }
    said.stdout = said.stderr = ''
    return all
  }
  return { context, stop, heard }
}

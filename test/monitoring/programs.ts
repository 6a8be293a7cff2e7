// Prometheus' programs: whether they are on this machine, reported loudly when they are not, and promtool's verdict on a text or a file.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const found = (program: string): boolean =>
  (process.env['PATH'] ?? '').split(delimiter).some((folder) => existsSync(join(folder, program)))

function missing(...programs: string[]): boolean {
  const absent = programs.filter((program) => !found(program))
  if (absent.length > 0)
    process.stderr.write(
      `\nSKIPPED: there is no ${absent.join(', no ')} here; .ci/tools/prometheus.sh brings it.\n\n`,
    )
  return absent.length > 0
}

const PROMTOOL = 'promtool'
export const promtoolMissing = missing(PROMTOOL)
export const monitoringMissing = missing('prometheus', 'prometheus-alertmanager')

/** Its complaints; '' when it has none. */
export function promtool(args: readonly string[], input = ''): string {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { input, encoding: 'utf8' })
  return status === 0 ? '' : `${stdout}${stderr}` || `it ended with ${status}`
}

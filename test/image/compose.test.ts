// The compose file: complete by docker-compose's own reading, and its daemon and mock run from it for real.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildImage, call, docker, freePort, imageImpossible, ok, TAG, until } from './engine.ts'

const own = join(
  process.env['AUDITFERRY_TOOLS'] ?? join(homedir(), '.cache/auditferry-tools'),
  'bin/docker-compose',
)
/** That of this machine, as a plugin of the engine's command or separate. */
async function composeCommand(): Promise<readonly string[] | undefined> {
  if (existsSync(own)) return [own]
  if ((await docker('compose', 'version')).code === 0) return ['docker', 'compose']
  return undefined
}

const command = await composeCommand()
const impossible =
  (await imageImpossible()) ??
  (command ? undefined : 'there is no docker-compose; .ci/tools/compose.sh brings one')
if (impossible !== undefined) process.stderr.write(`\nSKIPPED: nothing is composed: ${impossible}\n`)

const root = join(import.meta.dirname, '../..')
const file = join(root, 'config/docker-compose.yml')
const project = 'auditferry-test'

interface Service {
  readonly image: string
  readonly read_only: boolean
  readonly cap_drop: readonly string[]
  readonly ports?: readonly { readonly host_ip?: string }[]
  readonly volumes?: readonly { readonly type: string; readonly source: string }[]
}

describe.skipIf(impossible !== undefined)('composed', () => {
  let folder: string
  let override: string
  let port: number
  const compose = (...args: string[]) => {
    const [program = '', ...first] = command ?? []
    return call(program, [...first, '-f', file, '-f', override, '-p', project, ...args])
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'auditferry-compose-'))
    override = join(folder, 'override.yml')
    port = await freePort()
    await buildImage()
    // An engine without networks of its own, as in the gate, has only the host's.
    writeFileSync(
      override,
      `services:
  mock: { image: '${TAG}', network_mode: host }
  auditferry:
    image: '${TAG}'
    network_mode: host
    ports: !reset []
    extra_hosts: ['mock:127.0.0.1']
    environment: { AUDITFERRY_LISTEN: '127.0.0.1:${port}' }
    healthcheck: { interval: 1s }
`,
    )
  }, 480_000)

  afterAll(async () => {
    await compose('down', '-v', '-t', '15')
    rmSync(folder, { recursive: true, force: true })
  })

  it('every service is hardened, reachable from this machine alone, and finds its files', async () => {
    const [program = '', ...first] = command ?? []
    const text = await ok(call(program, [...first, '-f', file, 'config', '--format', 'json']))
    const { services } = JSON.parse(text) as { services: Record<string, Service> }
    expect(Object.keys(services).sort()).toEqual(['auditferry', 'grafana', 'mock', 'prometheus'])
    for (const service of Object.values(services)) {
      expect(service.read_only).toBe(true)
      expect(service.cap_drop).toEqual(['ALL'])
      for (const { host_ip: address } of service.ports ?? []) expect(address).toBe('127.0.0.1')
      for (const { type, source } of service.volumes ?? [])
        if (type === 'bind') expect(existsSync(source), source).toBe(true)
    }
  })

  it('the daemon reads the mock, becomes healthy and stops in order', async () => {
    await ok(compose('up', '-d', 'mock', 'auditferry'))
    const said = async () => (await compose('logs', '--tail=20')).stdout
    await until(
      'entries are delivered',
      60_000,
      async () => {
        const reply = await fetch(`http://127.0.0.1:${port}/status`).catch(() => undefined)
        const status =
          reply?.ok === true ? ((await reply.json()) as { sinks: { accepted_entries: number }[] }) : undefined
        return (status?.sinks[0]?.accepted_entries ?? 0) > 1_000 ? true : undefined
      },
      said,
    )
    const state = async (path: string) => {
      const id = await ok(compose('ps', '-a', '-q', 'auditferry'))
      return ok(docker('inspect', '-f', `{{${path}}}`, id))
    }
    await until(
      'healthy',
      30_000,
      async () => ((await state('.State.Health.Status')) === 'healthy' ? true : undefined),
      said,
    )
    await ok(compose('stop'))
    expect(await state('.State.ExitCode')).toBe('0')
  })
})

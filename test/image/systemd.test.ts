// The systemd unit under a real systemd, which runs in a container with the program of the image: started, reloaded, stopped, refused.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync, copyFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listenMock } from '../../src/mock/listen.ts'
import type { Listening } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { buildImage, docker, freePort, imageImpossible, ok, TAG, until } from './engine.ts'

const UNIT_TAG = 'auditferry:under-systemd'
/** Debian, as the public image of Node is. */
const base = process.env['AUDITFERRY_IMAGE_NODE'] ?? 'docker.io/library/node:26.10.0-trixie-slim'
const config = join(import.meta.dirname, '../../config')

const dockerfile = `FROM ${TAG} AS program
FROM ${base}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd procps >/dev/null
COPY --from=program /app /opt/auditferry
RUN mkdir -p /opt/auditferry/node_modules/.bin && ln -s "$(command -v node)" /opt/auditferry/node_modules/.bin/node
COPY auditferry.sysusers /usr/lib/sysusers.d/auditferry.conf
COPY auditferry.service /etc/systemd/system/
RUN systemd-sysusers && install -d -m 0750 -g auditferry /etc/auditferry
ENTRYPOINT ["/lib/systemd/systemd", "--log-target=console"]
`

const impossible = await imageImpossible()
if (impossible !== undefined) process.stderr.write(`\nSKIPPED: the unit is not started: ${impossible}\n`)

describe.skipIf(impossible !== undefined)('under systemd', () => {
  let folder: string
  let container = ''
  let api: Listening
  let port: number
  const inside = (...args: string[]) => docker('exec', container, ...args)
  const reported = async (property: string) =>
    ok(inside('systemctl', 'show', 'auditferry', '--value', '-p', property))

  async function configure(more: Readonly<Record<string, unknown>> = {}): Promise<void> {
    const file = join(folder, 'auditferry.yaml')
    const values = {
      workspaces: [
        {
          name: 'acme',
          base_url: api.url,
          api_key: '${file:/etc/auditferry/api-key}',
          audit: { interval: '2s' },
        },
      ],
      sinks: [{ name: 'archive', type: 'file', path: '/var/lib/auditferry/entries.ndjson' }],
      server: { listen: `127.0.0.1:${port}` },
      ...more,
    }
    writeFileSync(file, JSON.stringify(values), { mode: 0o644 })
    await ok(docker('cp', file, `${container}:/etc/auditferry/auditferry.yaml`))
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'auditferry-systemd-'))
    port = await freePort()
    const mock = openMock({ clock: systemClock, traffic: { backlog: 500, entriesPerHour: 3_600 } })
    api = await listenMock(mock, { port: 0, host: '127.0.0.1' })
    await buildImage()
    const context = join(folder, 'context')
    mkdirSync(context)
    for (const name of ['auditferry.service', 'auditferry.sysusers'])
      copyFileSync(join(config, name), join(context, name))
    writeFileSync(join(context, 'Dockerfile'), dockerfile)
    await ok(docker('build', '-q', '--network=host', '-t', UNIT_TAG, context))
    const free = [
      // What systemd itself needs to sandbox a service.
      '--cap-add=SYS_ADMIN',
      '--cap-add=SYS_PTRACE',
      '--security-opt=seccomp=unconfined',
      '--security-opt=apparmor=unconfined',
    ]
    const places = [
      '--tmpfs=/run',
      '--tmpfs=/run/lock',
      '--tmpfs=/tmp',
      '-v',
      '/sys/fs/cgroup:/sys/fs/cgroup:rw',
    ]
    const args = ['run', '-d', '--network=host', ...free, ...places, '-e', 'container=docker', UNIT_TAG]
    container = await ok(docker(...args))
    await until(
      'systemd runs',
      30_000,
      async () =>
        (await inside('systemctl', 'is-system-running')).stdout.trim() === 'running' ? true : undefined,
      async () => (await docker('logs', container)).stdout,
    )
    await ok(
      inside(
        'sh',
        '-c',
        'echo acme-key > /etc/auditferry/api-key && chgrp auditferry /etc/auditferry/api-key && chmod 0440 /etc/auditferry/api-key',
      ),
    )
  }, 480_000)

  afterAll(async () => {
    if (container !== '') await docker('rm', '-f', '-v', container)
    await api.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const journal = async () =>
    (await inside('journalctl', '-u', 'auditferry', '-n', '40', '--output=cat')).stdout

  it('start returns when the daemon is ready, and it delivers within its sandbox', async () => {
    await configure()
    const started = await inside('systemctl', 'start', 'auditferry')
    if (started.code !== 0) throw new Error(`${started.stderr}\n${await journal()}`)
    // Type=notify: from the first moment on it answers.
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
    await until(
      'entries are delivered',
      30_000,
      async () => {
        const reply = await fetch(`http://127.0.0.1:${port}/status`)
        const status = (await reply.json()) as { ok: boolean; sinks: { accepted_entries: number }[] }
        return status.ok && (status.sinks[0]?.accepted_entries ?? 0) >= 500 ? true : undefined
      },
      journal,
    )
    expect(await reported('ActiveState')).toBe('active')
    expect(await ok(inside('stat', '-c', '%U %a', '/var/lib/auditferry/entries.ndjson'))).toBe(
      'auditferry 600',
    )
  })

  it('reload applies another configuration without another process', async () => {
    const before = await reported('MainPID')
    await configure({ log: { level: 'debug' } })
    await ok(inside('systemctl', 'reload', 'auditferry'))
    await until(
      'it takes over',
      20_000,
      async () => ((await journal()).includes('takes over now') ? true : undefined),
      journal,
    )
    expect(await reported('MainPID')).toBe(before)
  })

  it('stop ends it in order within ten seconds', async () => {
    const since = Date.now()
    await ok(inside('systemctl', 'stop', 'auditferry'))
    expect(Date.now() - since).toBeLessThan(10_000)
    expect(await reported('Result')).toBe('success')
    expect(await reported('ExecMainStatus')).toBe('0')
  })

  it('an invalid configuration is not tried again', async () => {
    await configure({ sinks: [] })
    expect((await inside('systemctl', 'start', 'auditferry')).code).not.toBe(0)
    expect(await reported('ExecMainStatus')).toBe('78')
    expect(await reported('ActiveState')).toBe('failed')
    expect(await reported('NRestarts')).toBe('0')
  })
})

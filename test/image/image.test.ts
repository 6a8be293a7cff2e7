// The container image, built from this checkout and run as a careful operator runs it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildImage, call, docker, freePort, hardened, imageImpossible, ok, TAG, until } from './engine.ts'

const BUILD_MS = 480_000
const impossible = await imageImpossible()
if (impossible !== undefined) process.stderr.write(`\nSKIPPED: the image is not built: ${impossible}\n`)

interface ImageConfig {
  readonly User: string
  readonly Entrypoint: readonly string[]
  readonly Cmd: readonly string[]
  readonly Env: readonly string[]
  readonly Labels: Readonly<Record<string, string>>
  readonly Healthcheck: { readonly Test: readonly string[] }
  readonly Volumes: Readonly<Record<string, unknown>>
}

interface StatusReply {
  readonly ok: boolean
  readonly sinks: readonly { readonly accepted_entries: number }[]
}

const manifest = (await import('../../package.json', { with: { type: 'json' } })).default

describe.skipIf(impossible !== undefined)('the image', () => {
  const containers: string[] = []
  let folder: string
  let files: ReadonlySet<string>

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'auditferry-image-'))
    await buildImage()
    const id = await ok(docker('create', TAG))
    containers.push(id)
    const archive = join(folder, 'image.tar')
    await ok(docker('export', '-o', archive, id))
    files = new Set((await ok(call('tar', ['tf', archive]))).split('\n'))
  }, BUILD_MS)

  afterAll(async () => {
    for (const id of containers) await docker('rm', '-f', '-v', id)
    rmSync(folder, { recursive: true, force: true })
  })

  const start = async (args: readonly string[]): Promise<string> => {
    const id = await ok(docker('run', '-d', ...args))
    containers.push(id)
    return id
  }

  const logs = async (id: string) => {
    const { stdout, stderr } = await docker('logs', id)
    return stdout + stderr
  }

  it('runs as a user without a name on the host, by commands that need no shell', async () => {
    const config = JSON.parse(await ok(docker('inspect', '-f', '{{json .Config}}', TAG))) as ImageConfig
    expect(config.User).toBe('65532:65532')
    expect(config.Entrypoint).toEqual(['/usr/local/bin/auditferry'])
    expect(config.Cmd).toEqual(['run'])
    expect(config.Healthcheck.Test[0]).toBe('CMD')
    expect(config.Env).toContain('AUDITFERRY_LISTEN=0.0.0.0:9464')
    expect(Object.keys(config.Volumes)).toEqual(['/var/lib/auditferry'])
    expect(config.Labels).toMatchObject({
      'org.opencontainers.image.title': 'auditferry',
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.version': manifest.version,
    })
  })

  it('has the program and what it needs, and no shell, no package manager, no development dependency', () => {
    const held = [...files]
    expect(held.filter((path) => /^(usr\/)?s?bin\//.test(path))).toEqual([])
    expect(held.filter((path) => /\/bin\/(sh|bash|dash|npm|npx|busybox|apt|dpkg)$/.test(path))).toEqual([])
    for (const name of Object.keys(manifest.dependencies))
      expect(files, name).toContain(`app/node_modules/${name}/package.json`)
    for (const name of [
      ...Object.keys(manifest.devDependencies),
      ...Object.keys(manifest.optionalDependencies),
    ])
      expect(files, name).not.toContain(`app/node_modules/${name}/package.json`)
    const binaries = held.filter((path) => path.endsWith('.node'))
    expect(binaries).toEqual([`app/node_modules/better-sqlite3/prebuilds/linux-${process.arch}.node`])
    expect(held.filter((path) => /\.(ts|map)$/.test(path) && path.includes('node_modules'))).toEqual([])
  })

  it('includes the list of its parts', async () => {
    const id = containers[0] ?? ''
    const target = join(folder, 'sbom.json')
    await ok(docker('cp', `${id}:/usr/share/doc/auditferry/sbom.cdx.json`, target))
    const sbom = (await import(target, { with: { type: 'json' } })) as {
      default: { readonly bomFormat: string; readonly components: readonly { readonly name: string }[] }
    }
    const names = sbom.default.components.map(({ name }) => name)
    expect(sbom.default.bomFormat).toBe('CycloneDX')
    const installed = [...files].flatMap(
      (path) => /^app\/(?:node_modules\/((?:@[^/]+\/)?[^/]+)\/)+package\.json$/.exec(path)?.[1] ?? [],
    )
    expect(installed).toContain('better-sqlite3')
    expect([...new Set(names)].sort()).toEqual([...new Set(installed)].sort())
  })

  it('shows the demo under a read-only root without any capability, healthy, and stops within ten seconds with 0', async () => {
    const port = await freePort()
    const quick = ['--health-interval=1s', '--health-start-period=20s']
    const id = await start([...hardened, ...quick, '-e', `AUDITFERRY_LISTEN=127.0.0.1:${port}`, TAG, 'demo'])
    const said = () => logs(id)
    const accepted = await until(
      'entries flow',
      30_000,
      async () => {
        const reply = await fetch(`http://127.0.0.1:${port}/status`).catch(() => undefined)
        const status = reply?.ok === true ? ((await reply.json()) as StatusReply) : undefined
        return status?.ok === true && status.sinks[0]?.accepted_entries
          ? status.sinks[0].accepted_entries
          : undefined
      },
      said,
    )
    expect(accepted).toBeGreaterThan(0)
    const health = () => ok(docker('inspect', '-f', '{{.State.Health.Status}}', id))
    await until('healthy', 20_000, async () => ((await health()) === 'healthy' ? true : undefined), said)
    expect(await said()).toContain(`status page    http://127.0.0.1:${port}/`)
    const shown = await ok(
      docker('exec', id, 'auditferry', 'status', '--config', 'data/demo/auditferry.yaml'),
    )
    expect(shown).toContain('archive')
    const stoppedAt = Date.now()
    await ok(docker('stop', '-t', '20', id))
    expect(Date.now() - stoppedAt).toBeLessThan(10_000)
    expect(await ok(docker('inspect', '-f', '{{.State.ExitCode}}', id))).toBe('0')
  })

  it('is unhealthy if the daemon does not answer', async () => {
    const port = await freePort()
    const env = ['-e', `AUDITFERRY_LISTEN=0.0.0.0:${port}`]
    const health = ['--entrypoint=/usr/local/bin/node', TAG, '/app/dist/health.js']
    const { code, stdout } = await docker('run', '--rm', ...hardened, ...env, ...health)
    expect(code).toBe(1)
    expect(stdout).toBe(`http://127.0.0.1:${port}/livez does not answer: ECONNREFUSED\n`)
  })

  it('reads its configuration from /etc/auditferry and reports when there is none', async () => {
    const missing = await docker('run', '--rm', ...hardened, TAG)
    expect(missing.code).toBe(78)
    expect(missing.stderr).toContain('nor /etc/auditferry/auditferry.yaml is there')
    const file = join(folder, 'auditferry.yaml')
    const config = {
      workspaces: [{ name: 'acme', base_url: 'https://api.example.com', api_key: 'key', audit: {} }],
      sinks: [{ name: 'archive', type: 'file', path: '/var/lib/auditferry/entries.ndjson' }],
    }
    writeFileSync(file, JSON.stringify(config))
    const mount = ['-v', `${file}:/etc/auditferry/auditferry.yaml:ro`]
    const valid = await docker('run', '--rm', ...hardened, ...mount, TAG, 'validate')
    expect(valid.stderr + valid.stdout).toContain('ok: 1 workspace, 1 sink')
    expect(valid.code).toBe(0)
  })
})

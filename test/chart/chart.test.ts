// The chart under Helm 3 and Helm 4: what it renders, what it refuses and in which words, and that its documents and files are current.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { chart, helms, root, run, template, toolsFolder, toolsMissing, valueSets } from './tools.ts'

const missing = toolsMissing()
if (missing !== undefined) process.stderr.write(`\nSKIPPED: the chart is not tested: ${missing}\n`)

interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly data?: Readonly<Record<string, string>>
  readonly spec?: { readonly groups?: unknown }
}

const least = join(chart, 'ci/file-values.yaml')
let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'auditferry-chart-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function manifests(text: string): Manifest[] {
  return parseAllDocuments(text).flatMap((document) => (document.toJS() as Manifest | null) ?? [])
}

/** Values beside the minimal ones, as a file of their own. */
function given(values: unknown): string[] {
  const file = join(folder, `${Math.random().toString(36).slice(2)}.yaml`)
  writeFileSync(file, stringify(values))
  return ['-f', least, '-f', file]
}

it('its startup probe waits for the check of a full volume that reads 25 MB/s', () => {
  const { persistence, startupProbe } = parse(readFileSync(join(chart, 'values.yaml'), 'utf8')) as {
    readonly persistence: { readonly size: string }
    readonly startupProbe: { readonly periodSeconds: number; readonly failureThreshold: number }
  }
  const [, gib = ''] = /^(\d+)Gi$/.exec(persistence.size) ?? []
  const checkSeconds = (Number(gib) * 1024 ** 3) / 25e6
  expect(startupProbe.periodSeconds * startupProbe.failureThreshold).toBeGreaterThan(checkSeconds)
})

describe.skipIf(missing !== undefined).each(helms)('under %s', (helm) => {
  it.each(['serviceMonitor', 'podMonitor'])(
    'selector labels are its own, and large numbers are written out, with a %s',
    (monitor) => {
      const commonLabels = { 'app.kubernetes.io/name': 'theirs', team: 'soc' }
      const rendered = template(
        helm,
        given({ commonLabels, [monitor]: { enabled: true, sampleLimit: 1_000_000 } }),
      )
      expect(rendered).toContain('team: soc')
      expect(rendered).not.toContain('theirs')
      expect(rendered).toMatch(/sampleLimit: 1000000$/m)
    },
  )

  it.each(valueSets)(
    'the values of %s are valid, and make objects that Kubernetes and the operator know',
    (file) => {
      const lint = run(helm, ['lint', '--strict', chart, '-f', file])
      expect(lint.reported).toContain('0 chart(s) failed')
      const rendered = join(folder, `${helm}-${basename(file)}`)
      writeFileSync(rendered, template(helm, ['-f', file]))
      const operator = join(
        toolsFolder,
        'schemas/operator-v0.85.0/{{ .ResourceKind }}_{{ .ResourceAPIVersion }}.json',
      )
      for (const version of ['v1.27.16', 'v1.34.4']) {
        const own = join(toolsFolder, 'schemas', version, '{{ .ResourceKind }}{{ .KindSuffix }}.json')
        const args = ['-strict', '-summary', '-schema-location', own, '-schema-location', operator, rendered]
        const { code, reported } = run('kubeconform', args)
        expect(reported).toContain('Invalid: 0, Errors: 0, Skipped: 0')
        expect(code).toBe(0)
      }
    },
  )

  it.each([
    [{ replicaCount: 1 }, 'replicaCount'],
    [{ replicas: -1 }, 'replicas'],
    [{ journal: { engine: 'mysql' } }, 'engine'],
    [{ image: { tagg: '1' } }, 'tagg'],
    [{ image: { digest: 'sha256:short' } }, 'digest'],
    [{ persistence: { accessModes: ['ReadWriteMany'] } }, 'accessModes'],
    [{ persistence: { retention: { whenDeletd: 'Retain' } } }, 'whenDeletd'],
    [{ server: { port: 80 } }, 'port'],
    [{ serviceMonitor: { intervall: '30s' } }, 'intervall'],
    [{ networkPolicy: { egress: { port: [1] } } }, 'port'],
    [{ secrets: { existing: ['name-alone'] } }, 'existing'],
    [{ livenessProbe: { periodSecond: 1 } }, 'periodSecond'],
    [{ terminationGracePeriodSeconds: 5 }, 'terminationGracePeriodSeconds'],
  ])('%j is refused by the schema', (values, word) => {
    const { code, reported } = run(helm, ['template', 'release', chart, ...given(values)])
    expect(reported).toContain(word)
    expect(code).toBe(1)
  })

  const postgres = { url: '${env:DATABASE}' }
  const workspace = { name: 'acme', base_url: 'https://api.example.com', api_key: '${env:KEY}', audit: {} }
  it.each([
    [{ config: null }, 'there is no configuration: write it under `config`'],
    [
      { existingConfig: { secret: 's' } },
      'config and existingConfig.secret are set at once: keep one of them',
    ],
    [
      { replicas: 2 },
      'replicas is 2, and a journal on a volume belongs to one process: set it to 1, or keep the journal in PostgreSQL',
    ],
    [
      { journal: { engine: 'postgres' } },
      'journal.engine is postgres, and config says otherwise: leave it out',
    ],
    [
      { config: { journal: { postgres } }, journal: { engine: 'sqlite' } },
      'journal.engine is sqlite, and config says otherwise: leave it out',
    ],
    [
      { config: { journal: { postgres: { url: 'postgres://user:password@db/audit' } } } },
      'config.journal.postgres.url is the secret itself, and would end up in a ConfigMap',
    ],
    [
      { config: { journal: { postgres } }, persistence: { existingClaim: 'a' } },
      'the journal is in PostgreSQL: the claim would not be used; leave it out',
    ],
    [
      { config: { journal: { postgres } }, updateStrategy: { type: 'OnDelete' } },
      'updateStrategy.type is OnDelete, which a Deployment does not know',
    ],
    [
      { config: { journal: { postgres } } },
      'config.sinks[0].path is /var/lib/auditferry/entries.ndjson: the root file system is read-only; mount a volume there',
    ],
    [{ config: { sinks: null } }, 'config.sinks is missing: set a list with at least one item'],
    [
      { config: { server: { listen: '127.0.0.1:1' } } },
      'set server.address and server.port of the values instead',
    ],
    [{ config: { journal: { path: '/tmp/a.db' } } }, 'config.journal.path is /tmp/a.db, outside the volume'],
    [{ persistence: { mountPath: '/state' } }, 'set config.journal.path to /state/auditferry.db'],
    [
      { config: { sinks: [{ name: 'a', type: 'file', path: './out/x' }] } },
      'config.sinks[0].path is ./out/x: the root file system is read-only',
    ],
    [
      { config: { sinks: [{ name: 'a', type: 'splunk_hec', token: 'secret' }] } },
      'config.sinks[0].token is the secret itself',
    ],
    [
      { config: { workspaces: [{ ...workspace, api_key: 'plain' }] } },
      'config.workspaces[0].api_key is the secret itself, and would end up in a ConfigMap',
    ],
    [
      { config: { workspaces: [{ ...workspace, api_key: '${file:/run/secrets/auditferry/other}' }] } },
      'no secret brings other: name one under secrets.existing, or give secrets.data.other',
    ],
    [
      { serviceMonitor: { enabled: true }, podMonitor: { enabled: true } },
      'each series would be there twice: disable one',
    ],
    [
      { prometheusRule: { enabled: true, defaultRules: false } },
      'prometheusRule is enabled without any rule',
    ],
    [{ privateCA: { configMap: 'a', secret: 'b' } }, 'privateCA has several sources'],
    [
      { server: { address: '127.0.0.1' } },
      'server.address is 127.0.0.1: neither the probes nor Prometheus reach the pod there',
    ],
    [{ server: { address: '[0:0::1]' } }, 'server.address is [0:0::1]: neither the probes'],
    [{ persistence: { enabled: false, existingClaim: 'a' } }, 'the claim would not be used; set it to true'],
  ])('%j is refused with a message that says what to do', (values, words) => {
    const { code, reported } = run(helm, ['template', 'release', chart, ...given(values)])
    expect(reported.replaceAll(/\s+/g, ' ')).toContain(words)
    expect(code).toBe(1)
  })

  it('all invalid values are reported at once', () => {
    const values = { privateCA: { configMap: 'a', secret: 'b' }, config: { sinks: null } }
    const { reported } = run(helm, ['template', 'release', chart, ...given(values)])
    expect(reported).toContain('config.sinks is missing')
    expect(reported).toContain('privateCA has several sources')
  })

  // Helm 3 needs a cluster even for a dry run: there the cluster's own suite reads them.
  it.skipIf(helm === 'helm3')('the notes say where to look, and warn of risky values', () => {
    const notes = (values: unknown) =>
      run(helm, ['install', 'release', chart, '--dry-run=client', '--namespace', 'space', ...given(values)])
        .reported
    const plain = notes({})
    expect(plain).toContain(
      'kubectl --namespace space exec statefulset/release-auditferry -- auditferry status',
    )
    expect(plain).toContain('WARNING: secrets.data lies in the release')
    expect(plain).not.toContain('there is no volume')
    const several = notes({
      config: {
        journal: { postgres },
        sinks: [{ name: 'console', type: 'syslog', address: 'tls://syslog.example.com:6514' }],
      },
    })
    expect(several).toContain('exec deployment/release-auditferry -- auditferry status')
    expect(several).toContain('`auditferry journal migrate` makes its schema')
    expect(several).toContain('replicas is 1: while that pod is away, nothing is read')
    expect(several).not.toContain('there is no volume')
    const bare = notes({ persistence: { enabled: false }, resources: null, replicas: 0 })
    expect(bare).toContain('WARNING: there is no volume')
    expect(bare).toContain('WARNING: the pod has neither requests nor limits')
    expect(bare).toContain('replicas is 0')
  })

  it('it can be packed, and the package has no tests', () => {
    expect(run(helm, ['package', chart, '--destination', folder]).code).toBe(0)
    const listed = run('tar', ['tzf', join(folder, 'auditferry-0.1.0.tgz')]).reported.split('\n')
    expect(listed).toContain('auditferry/templates/tests/connect.yaml')
    expect(listed).toContain('auditferry/files/rules.yaml')
    expect(listed.filter((path) => /^auditferry\/(tests|ci)\//.test(path))).toEqual([])
  })
})

describe.skipIf(missing !== undefined)('the chart', () => {
  it.each(valueSets)('both Helms make the same of %s', (file) => {
    const [three, four] = helms.map((helm) =>
      manifests(template(helm, ['-f', file])).sort((a, b) =>
        `${a.kind} ${a.metadata.name}`.localeCompare(`${b.kind} ${b.metadata.name}`),
      ),
    )
    expect(four).toEqual(three)
  })

  it('its own unit tests pass', () => {
    const { code, reported } = run('untt', [chart])
    expect(reported).toMatch(/Tests: +\d+ passed/)
    expect(code).toBe(0)
  })

  it('its README is what helm-docs makes of the values', () => {
    const copy = join(folder, 'auditferry')
    cpSync(chart, copy, { recursive: true })
    rmSync(join(copy, 'README.md'))
    expect(run('helm-docs', ['--chart-search-root', copy, '--log-level', 'error']).code).toBe(0)
    expect(readFileSync(join(copy, 'README.md'), 'utf8')).toBe(readFileSync(join(chart, 'README.md'), 'utf8'))
  })

  it('each value is explained in the README', () => {
    const rows = readFileSync(join(chart, 'README.md'), 'utf8').matchAll(/^\| (\S+) \|.*\| +([^|]*) *\|$/gm)
    const silent = [...rows].filter(([, , words = '']) => words.trim() === '').map(([, name]) => name)
    expect(silent).toEqual([])
  })

  it('the program accepts its configuration', () => {
    for (const file of valueSets) {
      const rendered = manifests(template('helm4', ['-f', file])).find(
        ({ kind, data }) => kind === 'ConfigMap' && data?.['auditferry.yaml'] !== undefined,
      )
      const text = rendered?.data?.['auditferry.yaml']
      if (text === undefined) continue
      const here = mkdtempSync(join(folder, 'config-'))
      const moved = text.replaceAll(/\/(run\/secrets|var\/lib)\/auditferry/g, `${here}/$1`)
      for (const [, path = ''] of moved.matchAll(/\$\{file:([^}]+)\}/g)) {
        mkdirSync(dirname(path), { recursive: true })
        const secret = path.endsWith('/postgres') ? 'postgres://user:password@db/audit' : 'not-a-real-secret'
        writeFileSync(path, secret, { mode: 0o400 })
      }
      mkdirSync(join(here, 'var/lib'), { recursive: true })
      writeFileSync(join(here, 'auditferry.yaml'), moved)
      const args = [join(root, 'src/main.ts'), 'validate', '--config', join(here, 'auditferry.yaml')]
      const { code, reported } = run(process.execPath, args, {
        env: { AUDITFERRY_API_KEY: 'not-a-real-key' },
      })
      expect(reported).toMatch(/ok: \d workspaces?, \d sinks?, 0 warnings/)
      expect(code).toBe(0)
    }
  })

  const promtool = ['/usr/bin/promtool', '/usr/local/bin/promtool'].find((path) => existsSync(path))
  it.skipIf(promtool === undefined)('Prometheus accepts its rules', () => {
    const rendered = manifests(template('helm4', ['-f', join(chart, 'ci/everything-values.yaml')]))
    const groups = rendered.find(({ kind }) => kind === 'PrometheusRule')?.spec?.groups
    const file = join(folder, 'rules.yaml')
    writeFileSync(file, stringify({ groups }))
    const { code, reported } = run(promtool ?? '', ['check', 'rules', file])
    expect(reported).toContain('SUCCESS')
    expect(code).toBe(0)
  })
})

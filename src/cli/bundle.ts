// `bundle`: a support bundle in one file, readable before it is sent. No secret and no content.
import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { realFiles } from '../config/files.ts'
import { journalText } from '../config/journal.ts'
import { configText } from '../config/render.ts'
import { ballastPath, controlPath } from '../journal/sqlite/files.ts'
import { secretsIn } from '../core/secret.ts'
import type { ControlClient } from '../control/client.ts'
import { masker } from '../observability/log.ts'
import type { StatusReport } from '../observability/status.ts'
import { columns } from './shared/terminal.ts'
import { configFile } from './shared/config-file.ts'
import { writeExport } from './shared/export-file.ts'
import { reachDaemon } from './shared/journal.ts'
import { exitCodes, type CommandContext } from './shared/context.ts'

interface Section {
  readonly title: string
  readonly text: string
}

export async function bundle(
  context: CommandContext,
  options: { readonly config?: string },
  file: string,
): Promise<number> {
  const source = configFile(context, options.config)
  const { place, config, faults, client } = await reachDaemon(source, context)
  const sections: Section[] = [
    { title: 'Program and machine', text: machine(context) },
    // In an invalid file it is unknown which values are secrets; its faults contain no values.
    faults
      ? { title: `Faults of the configuration (${source}), not shown`, text: faults.message }
      : { title: `Configuration (${source}), secrets masked`, text: configText(config) },
    {
      title: 'Journal',
      text: place.journal.postgres ? `${journalText(place)}\n` : filesOf(place.journal.path),
    },
    ...(client ? await running(client) : [{ title: 'Daemon', text: 'No daemon runs on this journal.\n' }]),
  ]
  const secrets = secretsIn(config)
  const mask = masker(() => secrets)
  await writeExport(context, file, pieces())
  if (file !== '-') context.stderr(`auditferry: ${file} contains the bundle: read it before you send it\n`)
  return exitCodes.done

  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(
      '# Auditferry support bundle\n\nNo secrets and no content of entries. It contains names of workspaces, sinks and hosts.\n',
    )
    for (const { title, text } of sections)
      yield Buffer.from(`\n## ${title}\n\n\`\`\`\n${mask(text).trimEnd()}\n\`\`\`\n`)
  }
}

function machine({ version, env }: CommandContext): string {
  const { arch, platform, versions } = process
  const proxies = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].filter((name) => env[name] !== undefined)
  return columns([
    ['auditferry', version],
    ['node', versions.node],
    ['platform', `${platform} ${arch}`],
    ['set in the environment', proxies.length === 0 ? 'no proxy' : proxies.join(', ')],
  ])
}

function filesOf(journal: string): string {
  const socket = controlPath(journal)
  const place = realFiles.place(journal)
  const names = [place, `${place}-wal`, ballastPath(place), ...(socket === undefined ? [] : [socket])]
  const sizes = names.map((name) => [name, sizeOf(name)])
  return columns([...sizes, [dirname(place), freeOf(dirname(place))]])
}

function sizeOf(path: string): string {
  try {
    return `${statSync(path).size} bytes`
  } catch {
    return 'not there'
  }
}

function freeOf(folder: string): string {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return `${bavail * bsize} bytes free`
  } catch {
    return 'not there'
  }
}

/** Entry ids are left out because they lead to the entry. */
function withoutIds({ findings, ...rest }: StatusReport) {
  return {
    ...rest,
    findings: findings.map(({ workspace, source, kind, entry_at, found_at }) => ({
      workspace,
      source,
      kind,
      entry_at,
      found_at,
    })),
  }
}

/** Counted by code: a receiver's reason may quote the entry. */
async function running(client: ControlClient): Promise<Section[]> {
  const status = await client.status()
  const letters = await client.deadLetters({ limit: 1000 })
  const quarantined = await client.quarantined({ limit: 1000 })
  const counted = (names: readonly string[]) =>
    columns(
      Object.entries(Object.groupBy(names, (name) => name)).map(([name, all = []]) => [
        name,
        String(all.length),
      ]),
    )
  return [
    { title: 'Status', text: JSON.stringify(withoutIds(status), null, 2) },
    {
      title: 'Dead letters by sink and code (the first 1,000)',
      text: counted(letters.map(({ sink, code }) => `${sink} ${code}`)),
    },
    {
      title: 'Quarantine by source and reason (the first 1,000)',
      text: counted(
        quarantined.map(({ stream, reason }) => `${stream.workspace} ${stream.source} ${reason}`),
      ),
    },
    { title: 'Metrics', text: await client.metrics() },
  ]
}

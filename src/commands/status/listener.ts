// The report of a daemon without a control socket, from its listener: where it is the one of this configuration, not of another that has the address.
import { sourcesOf, type Config } from '../../config/schema.ts'
import { realFiles } from '../../config/files.ts'
import { hostPort } from '../../model/socket.ts'
import type { StatusReport } from '../../ops/status.ts'
import type { DaemonPlace } from '../shared/reach.ts'

const HTTP_MS = 3_000

/** An address that means all of them is asked at this machine's own. */
export function listenerUrl({ server }: DaemonPlace): string {
  const { host, port } = server.listen
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${hostPort({ host: name, port })}`
}

/** `report`: of our daemon; `other`: the journal of another one that has the address of its listener. */
export interface Answer {
  readonly report?: StatusReport
  readonly other?: string
}

export async function askListener(place: DaemonPlace, config: Config | undefined): Promise<Answer> {
  // Any free port: the configuration does not tell which.
  if (place.server.listen.port === 0) return {}
  const report = await reportAt(`${listenerUrl(place)}/status`)
  if (!report) return {}
  const { path } = report.journal
  // Of an older version: its parts are all that there is to go by.
  if (path === undefined) return !config || isNamedAs(config, report) ? { report } : {}
  return isSameFile(path, place.journal.path) ? { report } : { other: path }
}

async function reportAt(url: string): Promise<StatusReport | undefined> {
  try {
    const reply = await fetch(url, { signal: AbortSignal.timeout(HTTP_MS), redirect: 'error' })
    const report = (await reply.json()) as StatusReport
    return isReport(report) ? report : undefined
  } catch {
    return undefined
  }
}

function isReport({ sinks, workspaces, sentence, journal }: Partial<StatusReport>): boolean {
  const isOne = Array.isArray(sinks) && Array.isArray(workspaces) && typeof sentence === 'string'
  return isOne && journal !== undefined && ['string', 'undefined'].includes(typeof journal.path)
}

/** Links are followed. Of a daemon in a container only the name may be known out here. */
const isSameFile = (one: string, other: string) => realFiles.identity(one) === realFiles.identity(other)

function isNamedAs({ sinks, workspaces }: Config, report: StatusReport): boolean {
  const names = (parts: readonly { name: string }[]) => parts.map(({ name }) => name).join(' ')
  return (
    names(report.sinks) === names(sinks) &&
    names(report.workspaces) === names(workspaces.filter((each) => sourcesOf(each).length > 0))
  )
}

// A real Prometheus and a real Alertmanager on the loopback, and the receiver of the alerts.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { mkdirSync, writeFileSync } from 'node:fs'
import { stringify } from 'yaml'
import { freePort, HOST, until } from '../integration/receivers/ports.ts'
import { startProcess } from '../integration/receivers/process.ts'
import type { Running } from '../integration/receivers/program.ts'

export interface Alert {
  readonly status: 'firing' | 'resolved'
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

interface Sample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [number, string]
}

interface RuleState {
  readonly name: string
  readonly health: string
  readonly lastError?: string
}

export interface Prometheus {
  /** what Alertmanager sent, in its order */
  readonly arrived: readonly Alert[]
  /** Throws with Prometheus' own words when it cannot answer. */
  query(expr: string): Promise<readonly Sample[]>
  rules(): Promise<readonly RuleState[]>
  close(): Promise<void>
}

export interface Target {
  readonly job: string
  readonly port: number
}

interface Webhook {
  readonly url: string
  readonly arrived: Alert[]
  close(): Promise<void>
}

async function openWebhook(): Promise<Webhook> {
  const arrived: Alert[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => (body += text))
    request.on('end', () => {
      arrived.push(...(JSON.parse(body) as { alerts: Alert[] }).alerts)
      response.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve))
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return { url: `http://${HOST}:${(server.address() as AddressInfo).port}/`, arrived, close }
}

/** It says 503 while it begins. */
const isReady = (url: string): Promise<boolean> =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  )

async function started(
  folder: string,
  program: string,
  port: number,
  args: readonly string[],
): Promise<Running> {
  const own = `--web.listen-address=${HOST}:${port}`
  const running = startProcess(
    [program],
    {},
    { args: [...args, own], folder, port: { number: port, protocol: 'tcp' } },
  )
  await until(program, async () => {
    const ended = await running.ended()
    if (ended !== undefined) throw new Error(`${program} has ended: ${ended}`)
    return isReady(`http://${HOST}:${port}/-/ready`)
  })
  return running
}

function startAlertmanager(folder: string, port: number, webhook: string): Promise<Running> {
  const file = join(folder, 'alertmanager.yaml')
  // Related alerts are one message elsewhere; here each is to be seen as it comes.
  const route = {
    receiver: 'test',
    group_by: ['...'],
    group_wait: '0s',
    group_interval: '1s',
    repeat_interval: '1h',
  }
  const receivers = [{ name: 'test', webhook_configs: [{ url: webhook, send_resolved: true }] }]
  writeFileSync(file, stringify({ route, receivers }))
  return started(folder, 'prometheus-alertmanager', port, [
    ...[
      `--config.file=${file}`,
      `--storage.path=${join(folder, 'alertmanager')}`,
      '--cluster.listen-address=',
    ],
  ])
}

function startPrometheus(
  folder: string,
  port: number,
  alertmanager: number,
  targets: readonly Target[],
): Promise<Running> {
  const file = join(folder, 'prometheus.yaml')
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: [join(folder, 'rules.yaml')],
    alerting: { alertmanagers: [{ static_configs: [{ targets: [`${HOST}:${alertmanager}`] }] }] },
    scrape_configs: targets.map((target) => ({
      job_name: target.job,
      static_configs: [{ targets: [`${HOST}:${target.port}`] }],
    })),
  }
  writeFileSync(file, stringify(config))
  return started(folder, 'prometheus', port, [
    ...[`--config.file=${file}`, `--storage.tsdb.path=${join(folder, 'prometheus')}`, '--log.level=warn'],
    // A resolved alert is sent for so long; the daemons here live for a minute.
    '--rules.alert.resend-delay=1s',
  ])
}

/** `rules`: the text of a rules file. */
export async function openPrometheus(
  folder: string,
  rules: string,
  targets: readonly Target[],
): Promise<Prometheus> {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'rules.yaml'), rules)
  const webhook = await openWebhook()
  const [prometheusPort, alertmanagerPort] = [await freePort(), await freePort()]
  const running: Running[] = []
  const close = async () => {
    await Promise.all(running.map((each) => each.stop('SIGKILL')))
    await webhook.close()
  }
  const api = async <T>(path: string, form: Readonly<Record<string, string>> = {}): Promise<T> => {
    const body = new URLSearchParams(form)
    const reply = await fetch(
      `http://${HOST}:${prometheusPort}/api/v1/${path}`,
      Object.keys(form).length > 0 ? { method: 'POST', body } : {},
    )
    const reported = (await reply.json()) as { status: string; error?: string; data: T }
    if (reported.status !== 'success')
      throw new Error(`Prometheus: ${reported.error ?? reply.status}: ${form['query'] ?? path}`)
    return reported.data
  }
  try {
    running.push(await startAlertmanager(folder, alertmanagerPort, webhook.url))
    running.push(await startPrometheus(folder, prometheusPort, alertmanagerPort, targets))
  } catch (error) {
    await close()
    throw error
  }
  return {
    arrived: webhook.arrived,
    query: async (query) => (await api<{ result: Sample[] }>('query', { query })).result,
    rules: async () =>
      (await api<{ groups: { rules: RuleState[] }[] }>('rules')).groups.flatMap((group) => group.rules),
    close,
  }
}

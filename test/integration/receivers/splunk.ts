// Splunk's collector for the suite: Splunk Enterprise in its own image, and our fake of it behind the same interface.
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'undici'
import { FakeHec, listenHec } from '../../fakes/hec.ts'
import { atOnce, hostNetwork, imageMissing, testcontainers } from './container.ts'
import { answers, freePort, HOST, until } from './ports.ts'

/** An event as a search finds it. */
interface Indexed {
  readonly raw: string
  /** seconds since 1970, with six digits */
  readonly at: string
  readonly index: string
  readonly sourcetype: string
  readonly entryId: string
}

interface TokenWish {
  readonly acks: boolean
}

export interface Splunk {
  readonly url: string
  /** Of a new token that may write to `main` alone. */
  token(wish: TokenWish): Promise<string>
  /** All events of a source. */
  search(source: string): Promise<readonly Indexed[]>
  /** Resolves once it is down, then does `between`, and resolves when it takes events again. */
  restart(between: () => Promise<void>): Promise<void>
  close(): Promise<void>
}

export interface SplunkKind {
  readonly name: string
  readonly missing: string | undefined
  /** So long it may take to acknowledge, right after a start too. */
  readonly ackTimeout: string
  open(): Promise<Splunk>
}

/** There is no other. */
const PLATFORM = 'linux/amd64'
const HEC_PORT = 8088
const API_PORT = 8089
/** From nothing to taking events: some minutes, of which the first start takes the most. */
const PATIENCE_MS = 600_000

export const fakeSplunk: SplunkKind = {
  name: 'our fake of the collector',
  missing: undefined,
  ackTimeout: '2s',
  open: async () => {
    const fake = new FakeHec({ tokens: {} })
    let listener = await listenHec(fake, { port: 0 })
    const { port } = listener
    return {
      url: `http://${HOST}:${port}`,
      token: async ({ acks }) => {
        const token = randomUUID()
        const made = { acks, indexes: ['main'], defaultIndex: 'main' }
        fake.options = { ...fake.options, tokens: { ...fake.options.tokens, [token]: made } }
        return token
      },
      search: async (wanted) =>
        fake.indexed
          .filter(({ source }) => source === wanted)
          .map(({ event, time = '', index = '', sourcetype = '', fields }) => ({
            ...{ raw: event.toString(), at: Number(time).toFixed(6), index, sourcetype },
            entryId: String(fields['entry_id']),
          })),
      restart: async (between) => {
        await listener.close()
        await between()
        fake.restart()
        listener = await listenHec(fake, { port })
      },
      close: () => listener.close(),
    }
  },
}

const image = process.env['AUDITFERRY_IMAGE_SPLUNK'] ?? 'splunk/splunk:latest'

async function whyNoSplunk(): Promise<string | undefined> {
  if (process.env['AUDITFERRY_RECEIVERS'] === 'local') return 'there is none without a Docker engine'
  // Its terms are between Splunk and the user who runs it.
  if (process.env['AUDITFERRY_SPLUNK_TERMS'] !== 'accepted')
    return "set AUDITFERRY_SPLUNK_TERMS=accepted once you have read and accepted Splunk's licence and general terms"
  return imageMissing(image, PLATFORM)
}

const missing = await whyNoSplunk()
if (missing !== undefined) process.stderr.write(`\nSKIPPED: Splunk: ${missing}.\n\n`)

export const realSplunk: SplunkKind = {
  name: 'Splunk Enterprise',
  missing,
  ackTimeout: '30s',
  open: openContainer,
}

async function openContainer(): Promise<Splunk> {
  const { GenericContainer } = await testcontainers()
  const password = `Pass-${randomUUID()}`
  const [hec, api] = hostNetwork() ? [HEC_PORT, API_PORT] : [await freePort(), await freePort()]
  const prepared = new GenericContainer(image)
    .withPlatform(PLATFORM)
    .withEnvironment({
      SPLUNK_START_ARGS: '--accept-license',
      SPLUNK_GENERAL_TERMS: '--accept-sgt-current-at-splunk-com',
      SPLUNK_PASSWORD: password,
      SPLUNK_HEC_TOKEN: randomUUID(),
      SPLUNK_HEC_SSL: 'False',
    })
    .withWaitStrategy(await atOnce())
  if (hostNetwork()) prepared.withNetworkMode('host')
  // Named ports, so that they are the same after a restart.
  else prepared.withExposedPorts({ container: HEC_PORT, host: hec }, { container: API_PORT, host: api })
  const container = await prepared.start()
  const url = `http://${HOST}:${hec}`
  const management = managementOf(`https://${HOST}:${api}`, password)
  const close = async () => {
    await management.close()
    await container.stop({ timeout: 0 })
  }
  const ready = async () => (await isHealthy(url)) && management.answers()
  try {
    await until('Splunk', ready, PATIENCE_MS)
  } catch (error) {
    await close()
    throw error
  }
  return {
    ...{ url, close, token: management.token, search: management.search },
    restart: async (between) => {
      const { getContainerRuntimeClient } = await testcontainers()
      const handle = (await getContainerRuntimeClient()).container.getById(container.getId())
      // In order, as its operator would: its accepted events are on its disk then.
      await handle.stop({ t: 120 })
      await until('its end', async () => !(await answers(url)))
      await between()
      await handle.start()
      await until('Splunk again', ready, PATIENCE_MS)
    },
  }
}

const isHealthy = (url: string) =>
  fetch(`${url}/services/collector/health`).then(
    ({ ok }) => ok,
    () => false,
  )

interface Found {
  readonly result?: Readonly<Record<'_raw' | 'at' | 'index' | 'sourcetype' | 'entry_id', string>>
}

/** Splunk's own interface for its administrators, behind a certificate that it signed itself. */
function managementOf(base: string, password: string) {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } })
  const authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`
  const post = async (path: string, fields: Readonly<Record<string, string>>): Promise<string> => {
    const body = new URLSearchParams({ output_mode: 'json', ...fields }).toString()
    const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' }
    const reply = await request(`${base}${path}`, { method: 'POST', headers, body, dispatcher })
    const text = await reply.body.text()
    if (reply.statusCode >= 300) throw new Error(`Splunk: POST ${path}: ${reply.statusCode} ${text}`)
    return text
  }
  let tokens = 0
  return {
    close: () => dispatcher.close(),
    answers: () => post('/services/search/jobs/export', { search: '| makeresults' }).then(() => true, () => false), // prettier-ignore
    token: async ({ acks }: TokenWish): Promise<string> => {
      const fields = {
        ...{ name: `suite-${++tokens}`, index: 'main', indexes: 'main', disabled: '0' },
        useACK: acks ? '1' : '0',
      }
      const reported = await post('/servicesNS/nobody/splunk_httpinput/data/inputs/http', fields)
      const { entry } = JSON.parse(reported) as { entry: { content: { token: string } }[] }
      return entry[0]?.content.token ?? ''
    },
    search: async (source: string): Promise<readonly Indexed[]> => {
      const search = `search index=* source="${source}" | eval at=strftime(_time, "%s.%6N") | table _raw at index sourcetype entry_id`
      const reported = await post('/services/search/jobs/export', { search, earliest_time: '0' })
      const found = reported.split('\n').filter(Boolean).map((line) => JSON.parse(line) as Found) // prettier-ignore
      return found.flatMap(({ result }) =>
        result
          ? [{ raw: result._raw, at: result.at, index: result.index, sourcetype: result.sourcetype, entryId: result.entry_id }] // prettier-ignore
          : [],
      )
    },
  }
}

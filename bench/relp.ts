// RELP against rsyslog's own sender, omrelp: the same messages into the same imrelp receiver, one after the other. Wants rsyslog with its relp module. Prints, asserts nothing. `node bench/relp.ts [messages] [runs]`
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { systemClock } from '../src/platform/clock.ts'
import { connectSocket } from '../src/platform/sockets.ts'
import { RELP_WINDOW, RelpLink } from '../src/sinks/syslog/relp.ts'
import { freePort } from './free-port.ts'

const PROGRAM = '/usr/sbin/rsyslogd'
const MESSAGE_BYTES = 450
const TICKS_PER_SECOND = 100
const LOOK_MS = 5
const LONGEST_MS = 30_000
const FLOW_MS = 4_000
const never = new AbortController().signal

interface Figures {
  readonly perSecond: number
  readonly cpuPerMillion: number
  readonly receiverCpuPerMillion: number
}

function messages(count: number): Buffer[] {
  return Array.from({ length: count }, (_, i) => {
    const id = `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`
    const head = `<13>1 2026-01-31T12:00:00.${String(i % 1_000_000).padStart(6, '0')}Z host auditferry - audit [a@32473 id="${id}"] `
    return Buffer.from(
      `${head}{"id":"${id}","user_agent":"`.padEnd(MESSAGE_BYTES - 2, 'Mozilla/5.0 (X11) ').concat('"}'),
    )
  })
}

function rsyslog(folder: string, name: string, config: string): ChildProcess {
  const path = join(folder, `${name}.conf`)
  writeFileSync(path, config)
  const args = ['-n', '-C', '-f', path, '-i', join(folder, `${name}.pid`)]
  return spawn(PROGRAM, args, { cwd: folder, stdio: 'ignore' })
}

/** The same for both senders. Its workers are one, so that the order stays. */
const receiverConfig = (folder: string, port: number) => `
global(workDirectory="${folder}" maxMessageSize="64k")
main_queue(queue.type="FixedArray" queue.size="100000" queue.workerThreads="1" queue.dequeueBatchSize="1024")
module(load="imrelp")
input(type="imrelp" port="${port}" address="127.0.0.1" maxDataSize="64k")
template(name="raw" type="string" string="%rawmsg%\\n")
action(type="omfile" file="${folder}/out" template="raw" asyncWriting="off" flushOnTXEnd="on")
`

/** All messages lie in its queue before the receiver is there: what is measured is sending, not reading them in. */
const senderConfig = (folder: string, port: number, count: number, window: number) => `
global(workDirectory="${folder}" maxMessageSize="64k")
module(load="imfile")
module(load="omrelp")
template(name="raw" type="string" string="%rawmsg%")
ruleset(name="out" queue.type="FixedArray" queue.size="${count + 100_000}" queue.workerThreads="1" queue.dequeueBatchSize="1024") {
  action(type="omrelp" target="127.0.0.1" port="${port}" template="raw" windowSize="${window}" action.resumeInterval="1" action.resumeRetryCount="-1")
}
input(type="imfile" file="${folder}/in" tag="x" ruleset="out" freshStartTail="off")
`

function cpuSecondsOf(child: ChildProcess): number {
  const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0

async function until(there: () => boolean | Promise<boolean>): Promise<void> {
  const startedAt = performance.now()
  while (!(await there())) {
    if (performance.now() - startedAt > LONGEST_MS) throw new Error('it takes too long')
    await sleep(LOOK_MS)
  }
}

const answers = (port: number) => () =>
  connectSocket({ host: '127.0.0.1', port }, undefined, 1_000, never).then(
    (connection) => {
      connection.destroy()
      return true
    },
    () => false,
  )

/** From the first message in the receiver's file to the last, or as far as it came in FLOW_MS. */
async function flow(
  folder: string,
  count: number,
  receiver: ChildProcess,
  cpu: () => number,
): Promise<Figures> {
  const out = join(folder, 'out')
  await until(() => sizeOf(out) > 0)
  const [before, receiverBefore, startedAt, have] = [
    cpu(),
    cpuSecondsOf(receiver),
    performance.now(),
    sizeOf(out),
  ]
  const bytes = count * (MESSAGE_BYTES + 1)
  const elapsedMs = () => performance.now() - startedAt
  await until(() => sizeOf(out) >= bytes || elapsedMs() > FLOW_MS)
  const arrived = (sizeOf(out) - have) / (MESSAGE_BYTES + 1)
  return {
    perSecond: arrived / (elapsedMs() / 1000),
    cpuPerMillion: ((cpu() - before) / arrived) * 1e6,
    receiverCpuPerMillion: ((cpuSecondsOf(receiver) - receiverBefore) / arrived) * 1e6,
  }
}

async function stopped(children: readonly ChildProcess[]): Promise<void> {
  for (const child of children) {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    if (child.kill('SIGKILL')) await ended
  }
}

type Start = (name: string, config: string) => ChildProcess

const ours =
  (all: readonly Buffer[], batch: number) =>
  async (folder: string, start: Start): Promise<Figures> => {
    const port = await freePort()
    const receiver = start('receiver', receiverConfig(folder, port))
    await until(answers(port))
    const link = new RelpLink({
      where: 'the receiver',
      clock: systemClock,
      connect: (signal) => connectSocket({ host: '127.0.0.1', port }, undefined, 5_000, signal),
    })
    await link.open(never)
    const cpu = () => {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1e6
    }
    const figures = flow(folder, all.length, receiver, cpu)
    for (let at = 0; at < all.length; at += batch) await link.send(all.slice(at, at + batch), never)
    const measured = await figures
    await link.close(500)
    return measured
  }

const theirs =
  (all: readonly Buffer[], window: number) =>
  async (folder: string, start: Start): Promise<Figures> => {
    const port = await freePort()
    writeFileSync(join(folder, 'in'), Buffer.concat(all.flatMap((message) => [message, Buffer.from('\n')])))
    const sender = start('sender', senderConfig(folder, port, all.length, window))
    // Read in, and at rest.
    let last = -1
    await until(async () => {
      const now = cpuSecondsOf(sender)
      await sleep(500)
      const rests = now > 0.05 && now - last < 0.02
      last = now
      return rests
    })
    const receiver = start('receiver', receiverConfig(folder, port))
    return flow(folder, all.length, receiver, () => cpuSecondsOf(sender))
  }

async function inFolder(work: (folder: string, start: Start) => Promise<Figures>): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-relp-'))
  const children: ChildProcess[] = []
  const start: Start = (name, config) => {
    const child = rsyslog(folder, name, config)
    children.push(child)
    return child
  }
  try {
    return await work(folder, start)
  } finally {
    await stopped(children)
    rmSync(folder, { recursive: true, force: true })
  }
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN

export async function run(count = 100_000, runs = 3): Promise<void> {
  if (!existsSync(PROGRAM)) {
    console.log(`skipped: no ${PROGRAM}; .ci/tools/syslog.sh brings it`)
    return
  }
  const all = messages(count)
  const senders = {
    [`omrelp, window ${RELP_WINDOW}`]: theirs(all, RELP_WINDOW),
    'omrelp, window 1000': theirs(all, 1_000),
    [`ours, ${RELP_WINDOW} a call`]: ours(all, RELP_WINDOW),
    'ours, 1000 a call': ours(all, 1_000),
  }
  const figures = Object.entries(senders).map(([name, sender]) => ({ name, sender, each: [] as Figures[] }))
  for (let i = 0; i < runs; i++) for (const { sender, each } of figures) each.push(await inFolder(sender))
  console.log(`${count} messages of ${MESSAGE_BYTES} bytes, our window ${RELP_WINDOW}, median of ${runs}`)
  for (const { name, each } of figures) {
    const of = (key: keyof Figures) => median(each.map((one) => one[key]))
    console.log(
      `${name.padEnd(20)} ${Math.round(of('perSecond'))} messages/s, ${of('cpuPerMillion').toFixed(1)} CPU s a million, the receiver ${of('receiverCpuPerMillion').toFixed(1)}`,
    )
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href)
  await run(...process.argv.slice(2).map(Number))

// A receiver as a container, through testcontainers: ports of its own, or the host's network where AUDITFERRY_DOCKER_NETWORK is `host`.
import type { ContainerRuntimeClient, StartedTestContainer } from 'testcontainers'
import { HOST, type Port, taken } from './ports.ts'
import type { Found, Running, Start } from './program.ts'

const KEPT = 4_000

/** Ports are not mapped: a container listens where the host does. */
export const hostNetwork = () => process.env['AUDITFERRY_DOCKER_NETWORK'] === 'host'

/** Loaded late: without an engine it costs nothing. */
export const testcontainers = () => import('testcontainers')

/** Undefined when the image is there, or was pulled; else why not. */
export async function imageMissing(image: string, platform?: string): Promise<string | undefined> {
  const { getContainerRuntimeClient, ImageName } = await testcontainers()
  let client: ContainerRuntimeClient
  try {
    client = await getContainerRuntimeClient()
  } catch {
    return 'no Docker engine answers'
  }
  const name = ImageName.fromString(image)
  if (await client.image.exists(name)) return undefined
  if (process.env['AUDITFERRY_IMAGE_PULL'] === 'never')
    return `the engine has no image ${image}, and none is to be pulled`
  process.stderr.write(`\npulling ${image}\n`)
  try {
    await client.image.pull(name, { force: false, platform })
    return undefined
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : 'for no reason told'
    return `the image ${image} could not be pulled: ${reason}`
  }
}

/** Does not wait: the caller knows better when it is ready. */
export async function atOnce() {
  const { Wait } = await testcontainers()
  return Wait.forAll([])
}

/** What runs it, or why nothing does. */
export async function openContainers(
  image: string,
  command: readonly string[],
): Promise<Pick<Found, 'listenAt' | 'start'> | string> {
  const missing = await imageMissing(image)
  if (missing !== undefined) return missing
  return {
    listenAt: hostNetwork() ? HOST : '0.0.0.0',
    start: (start) => startContainer(image, command, start),
  }
}

async function startContainer(image: string, command: readonly string[], start: Start): Promise<Running> {
  const { GenericContainer } = await testcontainers()
  const { args, env = {}, folder, port } = start
  const prepared = new GenericContainer(image)
    .withEntrypoint(command.slice(0, 1))
    .withCommand([...command.slice(1), ...args])
    .withEnvironment(env)
    .withBindMounts([{ source: folder, target: folder }])
    .withWorkingDir(folder)
    .withWaitStrategy(await atOnce())
  // Its files belong to the user that runs the suite, who has to remove them.
  if (process.getuid && process.getgid) prepared.withUser(`${process.getuid()}:${process.getgid()}`)
  if (hostNetwork()) prepared.withNetworkMode('host')
  else prepared.withExposedPorts({ container: port.number, host: port.number, protocol: port.protocol })
  let said = ''
  prepared.withLogConsumer((stream) =>
    stream.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-KEPT))),
  )
  return runningOf(await prepared.start(), port, () => said)
}

async function runningOf(container: StartedTestContainer, port: Port, said: () => string): Promise<Running> {
  const { getContainerRuntimeClient } = await testcontainers()
  const handle = (await getContainerRuntimeClient()).container.getById(container.getId())
  let stopped = false
  const ended = async () => {
    if (stopped) return said()
    const { State } = await handle.inspect()
    return State.Running ? undefined : `exit ${State.ExitCode}: ${said()}`
  }
  return {
    ended,
    // The engine's own proxy takes connections long before the program does.
    listening: async () => (await taken(port)) && (hostNetwork() || listensInside(container, port)),
    stop: async (signal) => {
      if (stopped) return
      stopped = true
      if (signal !== 'SIGKILL' && (await handle.inspect()).State.Running) {
        await handle.kill({ signal })
        await handle.wait()
      }
      await handle.remove({ force: true, v: true })
    },
  }
}

/** As the kernel reports it inside: `local_address` is hexadecimal. */
async function listensInside(container: StartedTestContainer, port: Port): Promise<boolean> {
  const { output } = await container.exec([
    'cat',
    `/proc/net/${port.protocol}`,
    `/proc/net/${port.protocol}6`,
  ])
  return output.includes(`:${port.number.toString(16).toUpperCase().padStart(4, '0')} `)
}

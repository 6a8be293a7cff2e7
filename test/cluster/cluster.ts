// The cluster that .ci/tools/cluster.sh runs beside this process: its commands, its node, and a way for its pods to this machine's loopback.
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll } from 'vitest'
import { buildImage, call, docker, ok, TAG, type Result } from '../image/engine.ts'

const home = process.env['AUDITFERRY_CLUSTER'] ?? ''
const kubectlProgram = process.env['AUDITFERRY_KUBECTL'] ?? 'kubectl'
/** This machine, as pods find it. */
export const host = process.env['AUDITFERRY_CLUSTER_HOST'] ?? ''

export const clusterMissing = home === '' ? 'no cluster: .ci/tools/cluster.sh brings one' : undefined

export const kubectl = (...args: string[]): Promise<string> => ok(call(kubectlProgram, args))
export const tryKubectl = (...args: string[]): Promise<Result> => call(kubectlProgram, args)

/** An object's value at a JSONPath. */
export const reported = (namespace: string, object: string, path: string): Promise<string> =>
  kubectl('-n', namespace, 'get', object, '-o', `jsonpath={${path}}`)

/** From the engine into the node. */
async function loadImage(tag: string, folder: string): Promise<void> {
  const archive = join(folder, 'image.tar')
  await ok(docker('save', '-o', archive, tag))
  await ok(call('ctr', ['--address', `${home}/containerd.sock`, '-n', 'k8s.io', 'images', 'import', archive]))
}

/** A folder for the tests of the suite that calls this, once the built image is in the node. */
export function placeWithImage(timeoutMs: number): { readonly folder: string } {
  const place = { folder: '' }
  beforeAll(async () => {
    place.folder = mkdtempSync(join(tmpdir(), 'auditferry-place-'))
    await buildImage()
    await loadImage(TAG, place.folder)
  }, timeoutMs)
  afterAll(() => rmSync(place.folder, { recursive: true, force: true }))
  return place
}

/** A pod's container dies without a word. */
export async function killContainer(namespace: string, pod: string): Promise<void> {
  const id = await reported(namespace, `pod/${pod}`, '.status.containerStatuses[0].containerID')
  const socket = `${home}/containerd.sock`
  const task = id.replace('containerd://', '')
  await ok(call('ctr', ['--address', socket, '-n', 'k8s.io', 'tasks', 'kill', '-s', 'SIGKILL', task]))
}

let turn: Promise<void> = Promise.resolve()

/** The kubelet dies; its keeper starts another one. Resolves when that one has reported the node's state. One at a time. */
export function restartKubelet(): Promise<void> {
  turn = turn.catch(() => undefined).then(killKubelet)
  return turn
}

async function killKubelet(): Promise<void> {
  const pid = () => Number(readFileSync(join(home, 'kubelet.pid'), 'utf8'))
  const beat = () => reported('kube-node-lease', 'lease/localhost', '.spec.renewTime')
  const before = pid()
  // Zero would be this very process and all of its group.
  if (!(before > 1)) throw new Error('nobody knows which process is the kubelet')
  process.kill(before, 'SIGKILL')
  for (let tries = 0; pid() === before; tries++) {
    if (tries > 100) throw new Error('no new kubelet')
    await sleep(100)
  }
  const last = await beat()
  for (let tries = 0; (await beat()) === last; tries++) {
    if (tries > 150) throw new Error('the new kubelet says nothing')
    await sleep(200)
  }
}

export interface Reachable {
  /** as pods find it */
  readonly url: string
  close(): Promise<void>
}

/** Carries connections of pods to listeners on the loopback. */
export async function reachable(loopback: string): Promise<Reachable> {
  const port = Number(new URL(loopback).port)
  const open = new Set<Socket>()
  const server = createServer((pod) => {
    const inner = connect(port, '127.0.0.1')
    for (const socket of [pod, inner]) {
      open.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        open.delete(socket)
        pod.destroy()
        inner.destroy()
      })
    }
    pod.pipe(inner).pipe(pod)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, host, resolve)
  })
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of open) socket.destroy()
      }),
  }
}

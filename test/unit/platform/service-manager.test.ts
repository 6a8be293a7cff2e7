// What systemd receives, from its own command, at a socket like its own.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { notifyServiceManager } from '../../../src/platform/process.ts'

/** Prints each datagram that a Unix socket gets: Node cannot. */
const listener = `
import array, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    data, others, _, _ = s.recvmsg(4096, socket.CMSG_SPACE(64))
    for level, kind, fds in others:
        for fd in array.array('i', fds): socket.close(fd)
    print(data.decode(), flush=True)
`
const missing = ['systemd-notify', 'python3'].filter((name) => {
  try {
    execFileSync(name, ['--version'], { stdio: 'ignore' })
    return false
  } catch {
    return true
  }
})
if (missing.length > 0)
  process.stderr.write(`\nSKIPPED: systemd is not told anything: there is no ${missing.join(', no ')}\n`)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'auditferry-notify-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const warnings: unknown[] = []
const log = { warn: (message: string, fields?: unknown) => void warnings.push([message, fields]) }

async function until(ready: () => boolean): Promise<void> {
  for (let tries = 0; !ready(); tries++) {
    if (tries > 200) throw new Error('not within 10 s')
    await sleep(50)
  }
}

describe('systemd', () => {
  it.skipIf(missing.length > 0)('receives that the service is ready, and that it stops', async () => {
    const socket = join(folder, 'notify')
    const manager = spawn('python3', ['-c', listener, socket], { stdio: ['ignore', 'pipe', 'inherit'] })
    let heard = ''
    manager.stdout.setEncoding('utf8').on('data', (text: string) => (heard += text))
    try {
      await until(() => existsSync(socket))
      const env = { NOTIFY_SOCKET: socket, PATH: process.env['PATH'] }
      notifyServiceManager(env, log, 'READY=1')
      await until(() => heard.includes('READY=1'))
      notifyServiceManager(env, log, 'STOPPING=1')
      await until(() => heard.includes('STOPPING=1'))
      expect(warnings).toEqual([])
    } finally {
      manager.kill()
    }
  })

  it('is not contacted if it did not ask for it', () => {
    notifyServiceManager({ PATH: '/nowhere' }, log, 'READY=1')
    expect(warnings).toEqual([])
  })

  it('is mentioned in the log if it cannot be notified', async () => {
    notifyServiceManager({ NOTIFY_SOCKET: join(folder, 'none'), PATH: folder }, log, 'READY=1')
    await until(() => warnings.length > 0)
    expect(JSON.stringify(warnings)).toContain('systemd could not be notified of the service state')
  })
})

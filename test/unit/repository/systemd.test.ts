// The systemd unit, as systemd itself reads it.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const unit = readFileSync('config/auditferry.service', 'utf8')
/** `security --offline` came with systemd 250. */
function analyzes(): boolean {
  try {
    const [, version = '0'] =
      /^systemd (\d+)/.exec(execFileSync('systemd-analyze', ['--version']).toString()) ?? []
    return Number(version) >= 250
  } catch {
    return false
  }
}

const able = analyzes()
if (!able)
  process.stderr.write('\nSKIPPED: the unit is not analyzed: there is no systemd-analyze of version 250\n')

describe('the systemd unit', () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'auditferry-unit-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it.skipIf(!able)('has nothing unknown to systemd', () => {
    const file = join(folder, 'auditferry.service')
    // Programs must exist to be verified.
    writeFileSync(file, unit.replace(/ExecStart=\S+/, `ExecStart=${process.execPath}`))
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' })
    expect(stderr.split('\n').filter((line) => line.includes('auditferry.service'))).toEqual([])
    expect(status).toBe(0)
  })

  it.skipIf(!able)('leaves little open', () => {
    const args = ['security', '--offline=true', '--threshold=20', 'config/auditferry.service']
    const { status, stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' })
    expect(stdout).toContain('Overall exposure level for auditferry.service')
    expect(status).toBe(0)
  })

  it('does not restart after a failure that would repeat', () => {
    expect(unit).toContain('RestartPreventExitStatus=78 2')
  })
})

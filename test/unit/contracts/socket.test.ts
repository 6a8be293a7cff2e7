// How an address is named, in messages and out of URLs.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { addressOf, hostPort } from '../../../src/contracts/platform.ts'

test.each([
  ['siem.example.com', 'siem.example.com:6514'],
  ['192.0.2.1', '192.0.2.1:6514'],
  ['2001:db8::1', '[2001:db8::1]:6514'],
  ['::', '[::]:6514'],
  ['[::1]', '[::1]:6514'],
])('%s on a port is named %s', (host, named) => {
  expect(hostPort({ host, port: 6514 })).toBe(named)
})

test.each([
  ['https://siem.example.com', { host: 'siem.example.com', port: 443 }],
  ['http://siem.example.com/path?a=b', { host: 'siem.example.com', port: 80 }],
  ['https://siem.example.com:8088', { host: 'siem.example.com', port: 8088 }],
  ['https://[2001:db8::1]', { host: '2001:db8::1', port: 443 }],
])('%s leads to its host, without brackets, and its port', (url, address) => {
  expect(addressOf(url)).toEqual(address)
})

test('a named address parses back to itself', () => {
  const port = fc.integer({ min: 1, max: 65_535 })
  fc.assert(
    fc.property(fc.oneof(fc.domain(), fc.ipV4()), port, (host, given) => {
      const address = { host, port: given }
      expect(addressOf(`http://${hostPort(address)}`)).toEqual(address)
    }),
  )
  fc.assert(
    fc.property(fc.ipV6(), port, (host, given) => {
      const back = addressOf(`http://${hostPort({ host, port: given })}`)
      expect(back.port).toBe(given)
      expect(hostPort(back)).toMatch(/^\[[0-9a-f:]+\]:\d+$/)
    }),
  )
})

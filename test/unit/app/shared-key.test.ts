// A start with two workspaces on one key: law 5 is of the key, and each of them keeps to it alone.
import { expect, test } from 'vitest'
import { openHouse } from './house.ts'

test.each([
  ['acme-key', 1],
  ['another-key', 0],
])('a start with two workspaces on one key says so, and names both: %s', async (api_key, times) => {
  const house = openHouse({ others: ['again'], otherWorkspaces: { api_key } })
  const app = await house.open(false)
  await app.stop()
  house.remove()
  const told = house.lines.filter(({ sentence }) => sentence.startsWith('Workspaces ask with one api_key'))
  expect(told.map(({ fields }) => fields)).toEqual(
    Array(times).fill({ workspace: 'again', others: 'acme', areas: 'audit' }),
  )
})

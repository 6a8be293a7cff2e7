// What fills the journal's file to its bound and stays there until a person lets it go, and how that person does.
import { ConnectorError } from '../model/errors.ts'
import type { Core } from './core.ts'
import { diskFull, inMib, RAISE_LIMIT } from './no-room.ts'

/** From this part of the file on, what was set aside is what fills it. */
const SET_ASIDE_SHARE = 0.25

/** Does `land`, a write that may take up to `mostBytes`. Where what was set aside fills the file, no delivery will ever make room: its error says so. */
export function explaining<T>(core: Core, mostBytes: number, land: () => T): T {
  try {
    return land()
  } catch (error) {
    throw explained(error, core, mostBytes)
  }
}

function explained(
  error: unknown,
  { path, ledger, quarantine, transactions }: Core,
  mostBytes: number,
): unknown {
  if (!(error instanceof ConnectorError) || error.code !== 'disk_full') return error
  const { bound, left, isSystems } = transactions.fileBytes
  // What did not fit was rolled back, and the file is as long as before: with so much left it was the disk.
  if (left > mostBytes) return error
  const kinds = [
    { bytes: quarantine.held.bytes, are: 'quarantined elements', command: 'quarantine' },
    { bytes: ledger.letterBytes, are: 'dead letters', command: 'dead-letters' },
  ]
  const filling = kinds.filter(({ bytes }) => bytes >= bound * SET_ASIDE_SHARE)
  if (filling.length === 0) return isSystems ? atSystemsBound(path, bound, error) : error
  const commands = filling.map(({ command }) => `"auditferry ${command} export", then "drop"`).join('; ')
  const parts = filling.map(({ bytes, are }) => `${inMib(bytes)} of them are ${are}`).join(', ')
  const remedy = { what: `export and drop what was set aside (${commands})` }
  const why = `the file has reached its bound of ${inMib(bound)}, and ${parts}, which no delivery removes`
  return diskFull(path, { remedy, why }, error)
}

function atSystemsBound(path: string, bound: number, cause: unknown): ConnectorError {
  const why = `the file has reached ${inMib(bound)}, and the system lets none become larger`
  return diskFull(path, { remedy: RAISE_LIMIT, why }, cause)
}

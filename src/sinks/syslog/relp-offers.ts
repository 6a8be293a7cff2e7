// What a receiver answers to `open`: whether it is one that we can talk to. Pure.
import { ConnectorError } from '../../model/errors.ts'
import { printable } from '../../model/printable.ts'
import { OK } from './relp-replies.ts'

/** 0 is what the field speaks, 1 what the specification counts: the same frames. */
const versions = ['0', '1']
const LONGEST_WORDS = 80

const utf8 = new TextDecoder()

/** The first line that a receiver said, for a log: nothing of ours can stand in it yet. */
function sentenceOf(said: string): string {
  const [first = ''] = said.split('\n')
  const words = printable(first.slice(0, LONGEST_WORDS))
  return words === '' ? 'nothing' : `"${words}"`
}

/** undefined: it takes syslog messages in a version that we speak. */
export function faultOfOffers(where: string, code: number, bytes: Uint8Array): ConnectorError | undefined {
  const said = utf8.decode(bytes)
  const fault = (what: string) => new ConnectorError('misconfigured', `${where}: ${what}`)
  if (code !== OK) return fault(`refuses the session and says ${sentenceOf(said)}; see its own log`)
  const offers = new Map(said.split('\n').slice(1).map(split))
  const version = offers.get('relp_version')
  if (version === undefined)
    return fault('opens a session without naming its RELP version; is it a RELP listener?')
  if (!versions.includes(version)) return fault('speaks a RELP version that we do not; want 0 or 1')
  const commands =
    offers
      .get('commands')
      ?.split(',')
      .map((each) => each.trim()) ?? []
  if (!commands.includes('syslog'))
    return fault('opens a session but takes no syslog messages; does its configuration allow them?')
  return undefined
}

function split(line: string): [string, string] {
  const at = line.indexOf('=')
  return at < 0 ? [line.trim(), ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]
}

// Which server answers where an event collector was expected, by what is seen of its answer. Its words are not quoted.
import type { HttpReply } from '../../model/http.ts'

/** Splunk names itself so on all of its ports. */
const isSplunk = ({ server }: HttpReply['headers']) => /^splunkd/i.test(server ?? '')

function hasErrorText(body: Uint8Array): boolean {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(body))
    return typeof value === 'object' && value !== null && 'error' in value && typeof value.error === 'string'
  } catch {
    return false
  }
}

/** What to do about it; undefined where it could be anybody. */
export function strangerOf(headers: HttpReply['headers'], body: Uint8Array): string | undefined {
  const type = headers['content-type'] ?? ''
  const start = Buffer.from(body.subarray(0, 512)).toString('latin1')
  if (isSplunk(headers) && (/xml/i.test(type) || /<response>/.test(start)))
    return "this is Splunk's management port, as a rule 8089, and no event collector: set 'url' to the collector's port, as a rule 8088"
  if (isSplunk(headers) && (/html/i.test(type) || headers['location'] !== undefined))
    return "this is Splunk's web port, as a rule 8000, and no event collector: set 'url' to the collector's port, as a rule 8088"
  if (!isSplunk(headers) && hasErrorText(body))
    return "it answers {\"error\": …} as the workspace's API does, and as no event collector does: check 'url', and for a gateway on the way"
  return undefined
}

// Whether an answer to a put is S3's own: what stands before a bucket may answer in its place, with a status that S3 has too.
import type { PutObjectCommand } from '@aws-sdk/client-s3'
import { ConnectorError } from '../../../model/errors.ts'

const thereAlready = /<Error(?:\s[^>]*)?>[^]*<Code>\s*PreconditionFailed\s*<\/Code>/

/** Somebody answered in the bucket's place: of the bucket itself it says nothing. */
export class StrangersAnswer extends ConnectorError {}

/** Throws for what S3 never says. Other answers are no success and need no such look. */
function checkAnswer(where: string, status: number, body: Uint8Array): void {
  if (status === 412 && !thereAlready.test(Buffer.from(body).toString()))
    throw new StrangersAnswer(
      'misconfigured',
      `${where} answered 412 in words that are not S3's own (no PreconditionFailed): a portal or proxy may be in the way, nothing counts as stored; check endpoint`,
    )
  if (status >= 200 && status < 300 && body.length > 0)
    throw new StrangersAnswer(
      'bad_reply',
      `${where} answered a put with a page, which S3 does not: a proxy or portal may be in the way`,
    )
}

/** Before the library reads it: of a page it keeps the status alone. */
export function wantsOwnAnswer(where: string, command: PutObjectCommand): void {
  command.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args)
      const { statusCode, body } = result.response as { statusCode: number; body: Uint8Array }
      checkAnswer(where, statusCode, body)
      return result
    },
    { step: 'deserialize', priority: 'low', name: 'ownAnswer' },
  )
}

// A body that is held until it is whole, up to a bound.
import type { Answer } from '../client/client.ts'
import type { BodySample } from './body-sample.ts'

/**
 * Undefined where it is larger than `mostBytes`. With a `sample`, which sees every byte, it is read to its end all the same;
 * without one the rest is not asked for.
 */
export async function hold(
  { body }: Pick<Answer, 'body'>,
  mostBytes: number,
  sample?: BodySample,
): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body) {
    sample?.add(chunk)
    bytes += chunk.length
    if (bytes <= mostBytes) chunks.push(chunk)
    else if (!sample) return undefined
    else chunks.length = 0
  }
  return bytes <= mostBytes ? Buffer.concat(chunks, bytes) : undefined
}

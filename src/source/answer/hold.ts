// A body that is held until it is whole, up to a bound.
import { Pieces } from '../../model/pieces.ts'
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
  let pieces: Pieces | undefined = new Pieces()
  let bytes = 0
  for await (const piece of body) {
    sample?.add(piece)
    bytes += piece.length
    if (bytes <= mostBytes) pieces?.add(piece)
    else if (!sample) return undefined
    else pieces = undefined
  }
  return pieces?.whole()
}

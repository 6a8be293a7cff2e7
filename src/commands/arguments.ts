// How numbers and repeated options are read from the command line; a bad one is wrong usage.
import { InvalidArgumentError } from 'commander'
import { listen } from '../config/fields.ts'
import { MOST_LINES } from '../ops/taps.ts'

export function wholeNumber(text: string): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN
  if (Number.isNaN(value)) throw new InvalidArgumentError('Want a whole number.')
  return value
}

/** From 1: of none there is nothing to say. */
export function someNumber(text: string): number {
  const value = wholeNumber(text)
  if (value < 1) throw new InvalidArgumentError('Want a whole number from 1 on.')
  return value
}

export function tapLimit(text: string): number {
  const value = wholeNumber(text)
  if (value < 1 || value > MOST_LINES)
    throw new InvalidArgumentError(`Want a number from 1 to ${MOST_LINES}.`)
  return value
}

export function port(text: string): number {
  const value = wholeNumber(text)
  if (value > 65_535) throw new InvalidArgumentError('Want a port from 0 to 65535.')
  return value
}

/** As `server.listen` of the configuration has it. */
export function listenAddress(text: string): string {
  const { error } = listen().safeParse(text)
  if (error) throw new InvalidArgumentError('Want host:port, such as 127.0.0.1:9464.')
  return text
}

/** For an option that may stand several times. */
export function each(text: string, before: readonly string[]): readonly string[] {
  return [...before, text]
}

export function eachNumber(text: string, before: readonly number[]): readonly number[] {
  return [...before, someNumber(text)]
}

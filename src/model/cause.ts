// What a failure is about: its words, whatever numbers they are told with.

/** A status says what happened, as a word does. */
const numbers = /(\banswered \d{3}\b)|\d+(?:[.,]\d+)*/g

/** The same for two messages that differ in sizes, counts and times only. */
export const causeOf = (message: string): string => message.replaceAll(numbers, '$1')

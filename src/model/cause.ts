// What a failure is about: its words, whatever numbers they are told with.

/** The same for two messages that differ in sizes, counts and times only. */
export const causeOf = (message: string): string => message.replaceAll(/\d+(?:[.,:]\d+)*/g, '#')

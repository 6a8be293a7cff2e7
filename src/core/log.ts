// The log for operators: constant sentences, facts as fields. Never content, never a secret.

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>

export interface Log {
  debug(sentence: string, fields?: LogFields): void
  info(sentence: string, fields?: LogFields): void
  warn(sentence: string, fields?: LogFields): void
  error(sentence: string, fields?: LogFields): void
  /** The same log with fields added to each line. */
  with(fields: LogFields): Log
}

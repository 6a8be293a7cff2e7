// What may be told of an error that is not ours: its name and where it was thrown. Its message, its cause and its fields may hold a secret or content.

/** The innermost frames. A message of many lines could look like one, so they are read behind it. */
export function thrownAt({ message, stack = '' }: Error): string {
  const at = stack.indexOf(message)
  if (at < 0) return 'unknown'
  const frames = stack.slice(at + message.length).split('\n')
  return frames
    .filter((line) => /^ {4}at \S/.test(line))
    .slice(0, 4)
    .map((line) => line.trim())
    .join(' < ')
}

/** For standard error, as the last words of a process. */
export function bugLine(error: unknown): string {
  const what = error instanceof Error ? `${error.constructor.name} ${thrownAt(error)}` : typeof error
  return `auditferry: a bug, please report it: ${what}\n`
}

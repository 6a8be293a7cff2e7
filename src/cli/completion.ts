// `completion`: a script for shell completion, generated from the command list.
import { exitCodes, type CommandContext } from './shared/context.ts'

/** A command for completion: its full name, such as `dead-letters list`, and what may follow. */
export interface CompletedCommand {
  readonly path: readonly string[]
  readonly commands: readonly string[]
  readonly options: readonly string[]
  /** allowed values of its argument; empty: anything */
  readonly words: readonly string[]
  /** allowed values of an option, by its long name */
  readonly values: Readonly<Record<string, readonly string[]>>
}

/** Words that may follow a command. An option without fixed values completes file names. */
const follows = ({ commands, words, options }: CompletedCommand) =>
  [...commands, ...words, ...options].join(' ')

/** Also runs in zsh, which reserves `path` and `words` and needs slice lengths computed. */
function bash(commands: readonly CompletedCommand[]): string {
  const cases = commands.map((command) => `    '${command.path.join(' ')}') offered='${follows(command)}' ;;`)
  const chosen = commands.flatMap(({ path, values }) =>
    Object.entries(values).map(
      ([option, all]) => `    '${path.join(' ')} ${option}') offered='${all.join(' ')}' ;;`,
    ),
  )
  const known = commands.map(({ path }) => `|${path.join(' ')}|`).join('')
  return `_auditferry() {
  local word next named='' offered='' known='${known}'
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}"
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    next="\${named:+$named }$word"
    case "$known" in *"|$next|"*) named="$next" ;; esac
  done
  case "$before" in -c | --config) COMPREPLY=($(compgen -f -- "$current")); return ;; esac
  case "$named" in
${cases.join('\n')}
  esac
  case "$named $before" in
${chosen.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$offered" -- "$current"))
  [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -F _auditferry auditferry
`
}

/** zsh runs bash functions through bashcompinit. */
const zsh = (commands: readonly CompletedCommand[]) =>
  `#compdef auditferry\nautoload -U +X bashcompinit && bashcompinit\n${bash(commands)}`

function fish(commands: readonly CompletedCommand[]): string {
  const lines = commands.flatMap(({ path, commands: inner, options, words, values }) => {
    const seen = path.map((name) => `__fish_seen_subcommand_from ${name}`).join('; and ')
    const unless = inner.length > 0 ? `not __fish_seen_subcommand_from ${inner.join(' ')}` : ''
    const when = [seen, unless].filter((part) => part !== '').join('; and ')
    return [
      ...[...inner, ...words].map((name) => `complete -c auditferry -f -n '${when}' -a ${name}`),
      ...options.map((option) => {
        const all = values[option]
        return `complete -c auditferry -n '${when}' -l ${option.slice(2)}${all ? ` -x -a '${all.join(' ')}'` : ''}`
      }),
    ]
  })
  return `${lines.join('\n')}\n`
}

const scripts = { bash, zsh, fish }
export const shells = Object.keys(scripts)
export type Shell = keyof typeof scripts

export async function completion(
  context: CommandContext,
  commands: readonly CompletedCommand[],
  shell: Shell,
): Promise<number> {
  context.stdout(scripts[shell](commands))
  return exitCodes.done
}

// Methods and path patterns of an area, to endpoint names and path parameters.

interface Found {
  readonly endpoint: string
  /** of the path, decoded */
  readonly params: Readonly<Record<string, string>>
}

interface Line {
  readonly endpoint: string
  readonly method: string
  readonly pattern: RegExp
}

function lineOf([route, endpoint]: [string, string]): Line {
  const [method = '', path = ''] = route.split(' ')
  const source = path.replaceAll('.', '\\.').replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')
  return { endpoint, method, pattern: new RegExp(`^${source}$`) }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export interface RouteTable {
  (method: string, path: string): Found | undefined
  /** their names, each once */
  readonly endpoints: readonly string[]
}

/** `GET /path/{param}` to an endpoint's name. The first that fits wins. */
export function routeTable(routes: Readonly<Record<string, string>>): RouteTable {
  const lines = Object.entries(routes).map(lineOf)
  const find = (method: string, path: string): Found | undefined => {
    for (const line of lines) {
      if (line.method !== method) continue
      const match = line.pattern.exec(path)
      if (!match) continue
      const params = Object.entries(match.groups ?? {}).map(([name, value]) => [name, decoded(value)])
      return { endpoint: line.endpoint, params: Object.fromEntries(params) as Record<string, string> }
    }
    return undefined
  }
  return Object.assign(find, { endpoints: [...new Set(Object.values(routes))] })
}

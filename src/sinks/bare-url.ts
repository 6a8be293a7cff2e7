// An address of which the paths are ours: scheme, host and port alone, over http or https.
export function isBareUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, pathname, search, hash, username, password, host, port } = new URL(text)
  const bare = pathname === '/' && search + hash + username + password === '' && host !== '' && port !== '0'
  return bare && (protocol === 'https:' || protocol === 'http:')
}

/** Under TLS? The scheme of an address may be written in capitals. */
export const isEncrypted = (url: string): boolean => /^https:/i.test(url)

// A journal, or another contract, of which some methods are replaced: to fail, to wait, to count, to die.

export function withMethods<T extends object>(whole: T, methods: Partial<T>): T {
  return new Proxy(whole, {
    get(target, name) {
      // It also goes through promises, which ask whether it is one.
      const own = (Reflect.get(methods, name) ?? Reflect.get(target, name)) as unknown
      return typeof own === 'function' ? (own.bind(target) as unknown) : own
    },
  })
}

// A part with some of its methods put in front of it; all else is the part's own.

/** As a proxy, since a part may be of a class with private state, and may lack what is optional. */
export function overlay<T extends object>(part: T, changed: Partial<T>): T {
  return new Proxy(part, {
    get(target, key): unknown {
      if (Object.hasOwn(changed, key)) return Reflect.get(changed, key)
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

// An object with some of its methods replaced; everything else is the object's own.

/** A proxy, since the object may have private state, and may lack optional methods. */
export function overlay<T extends object>(part: T, changed: Partial<T>): T {
  return new Proxy(part, {
    get(target, key): unknown {
      if (Object.hasOwn(changed, key)) return Reflect.get(changed, key)
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

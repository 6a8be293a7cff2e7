// Where reading begins in a journal that knows nothing yet.
export type Start =
  | { readonly kind: 'earliest' }
  | { readonly kind: 'latest' }
  | { readonly kind: 'span'; readonly ms: number }
  | { readonly kind: 'time'; readonly atUs: number }

// Which names a bucket may have: AWS is strict, other servers are each as strict as they like.
const form = /^[a-z0-9](?:[a-z0-9-]|\.(?!\.))*[a-z0-9]$/
const address = /^\d+\.\d+\.\d+\.\d+$/

/** True for a name that AWS would take; the schema bounds its length. */
export const isUsualName = (bucket: string): boolean => form.test(bucket) && !address.test(bucket)

const wanted = 'small letters, digits, hyphens and single dots, and no IP address'
export const awsNameFault = `AWS has no bucket of such a name: want ${wanted}`
/** Ceph takes some, and AWS still has some that are older than the rule, in the path alone. */
export const unusualNameDoubt = `most servers have no bucket of such a name, but of ${wanted}: look whether this one has`

// Package carried is what core and core/experimental/carry know together: leases that one
// process describes to another. core puts its part in, so that users of core see none of it.
package carried

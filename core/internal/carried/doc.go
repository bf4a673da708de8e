// Package carried is what core and core/experimental/carry know together: leases that one
// process describes to another. core sets the function variables here, which keeps them out of
// core's API.
package carried

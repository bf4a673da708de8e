// Package band keeps who had a key over the last minutes, as far as samples show it.
//
// A sample says who holds the key at one moment. It also says since when, because the store knows
// when it granted the lease. So a lease that shows in one sample is known from its grant to the
// sample. What was between a sample and the next grant is not known. It is no part of any [Span],
// and pages draw it as unknown.
package band

// Package routertest has no code but tests, of lockhttp behind chi.
package routertest

// Package routertest has no code but tests, of lockhttp behind chi. It is a module of its own, so that
// chi does not raise the versions of those who use another router.
package routertest

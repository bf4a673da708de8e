// Package lockgrpc x.
package lockgrpc

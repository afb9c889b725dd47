//go:build !race

package shedding

const raceDetector = false

//go:build race

package priority

const raceDetector = true
